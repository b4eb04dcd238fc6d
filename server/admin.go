package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/ownersocket"
	"interlock.sh/server/auth"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
)

// The admin socket is how the operator, on the server's machine and as its user, reaches a server that
// runs: the database is locked by it, so nobody else can write there. File permissions are its only
// credential.

const (
	adminSocket     = "admin.sock"
	adminTimeout    = 10 * time.Second
	ownerTokenRoute = "/owner-token"
)

// ownerToken is the answer of POST /owner-token.
type ownerToken struct {
	Token string `json:"token"`
}

// NewOwnerToken makes an owner token for the control plane of a data folder: through the server that runs
// on it, or in its database when none does. Tokens that were not used before end.
func NewOwnerToken(ctx context.Context, data string, c clock.Clock) (string, error) {
	// Opening makes what is missing: a token of a fresh, empty control plane would help nobody.
	if entries, err := os.ReadDir(data); err != nil || len(entries) == 0 {
		return "", fault.New(fault.NotFound, "%s holds no control plane", data).WithField("data").
			WithHint("name the folder that `interlock serve --data` uses")
	}
	token, err := askServer(ctx, data)
	if err == nil || !errors.Is(err, errNoServer) {
		return token, err
	}
	db, err := store.Open(ctx, store.Options{Dir: data, Clock: c})
	if err != nil {
		return "", err
	}
	token, err = auth.New(db, new(hints.Hub)).NewOwnerToken(ctx)
	return token, errors.Join(err, closing(db.Close))
}

var errNoServer = errors.New("no server answers on the admin socket")

// askServer asks the server that runs on a data folder; errNoServer when none does.
func askServer(ctx context.Context, data string) (string, error) {
	path, _, err := adminPath(data)
	if err != nil {
		return "", err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return ownersocket.Dial(ctx, path) }
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://admin"+ownerTokenRoute, nil)
	if err != nil {
		return "", err
	}
	resp, err := transport.RoundTrip(req)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return "", errNoServer
	}
	if words := refusedSocket(err); errors.Is(words, fault.Conflict) {
		return "", words
	}
	if err != nil {
		return "", fault.Wrap(err, fault.Unavailable, "the server on %s does not answer at %s: %v", data, path, err).WithHint("run this as the server's user")
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", fmt.Errorf("read answer of %s: %w", path, err)
	}
	var answer struct {
		ownerToken
		Error *fault.Error `json:"error"`
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return "", fmt.Errorf("read answer of %s: %w", path, err)
	}
	if answer.Error != nil {
		return "", answer.Error
	}
	return answer.Token, nil
}

// adminPath is where the admin socket of a data folder stands: in it, or where that path is too long for
// a socket, under a short name in a folder of this user's. moved says that it is the second.
func adminPath(data string) (path string, moved bool, err error) {
	abs, err := filepath.Abs(data)
	if err != nil {
		return "", false, err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	path, moved = ownersocket.Path(abs, adminSocket, "interlock")
	return path, moved, nil
}

// listenAdmin opens the admin socket. The caller holds the lock of the data folder, so a socket of ours that
// is there already belongs to nobody.
func listenAdmin(data string) (net.Listener, error) {
	path, moved, err := adminPath(data)
	if err != nil {
		return nil, err
	}
	if moved {
		if err := ownersocket.Private(filepath.Dir(path)); err != nil {
			return nil, refusedSocket(err)
		}
	}
	l, err := ownersocket.Listen(path)
	return l, refusedSocket(err)
}

// refusedSocket puts the words of a refusal where people look for them.
func refusedSocket(err error) error {
	var refused *ownersocket.RefusedError
	if errors.As(err, &refused) {
		return fault.Wrap(err, fault.Conflict, "the admin socket cannot be opened: %s %s", refused.Path, refused.What).WithHint("%s", refused.Fix)
	}
	return err
}

// adminServer answers the admin socket.
func adminServer(a *auth.Service, log *slog.Logger) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+ownerTokenRoute, func(w http.ResponseWriter, r *http.Request) {
		token, err := a.NewOwnerToken(r.Context())
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			e := fault.Of(err)
			log.ErrorContext(r.Context(), "make owner token", slog.Any("cause", err))
			w.WriteHeader(e.Code.Status())
			_ = json.NewEncoder(w).Encode(map[string]any{"error": e}) // the asker is gone: nobody is left to tell
			return
		}
		log.InfoContext(r.Context(), "a new owner token was made through the admin socket")
		_ = json.NewEncoder(w).Encode(ownerToken{token}) // as above
	})
	return &http.Server{Handler: mux, ReadHeaderTimeout: adminTimeout, ReadTimeout: adminTimeout, WriteTimeout: adminTimeout}
}
