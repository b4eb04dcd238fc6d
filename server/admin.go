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
	runningRoute    = "/running"
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
	var made ownerToken
	if err := askServer(ctx, data, http.MethodPost, ownerTokenRoute, &made); err == nil || !errors.Is(err, errNoServer) {
		return made.Token, err
	}
	db, err := store.Open(ctx, store.Options{Dir: data, Clock: c})
	if err != nil {
		return "", err
	}
	token, err := auth.New(db, new(hints.Hub)).NewOwnerToken(ctx)
	return token, errors.Join(err, closing(db.Close))
}

// running is the answer of GET /running.
type running struct {
	Version string `json:"version"`
}

// Running is the version of the control plane that serves on a data folder; fault.Unavailable when none does,
// or one that is not ready.
func Running(ctx context.Context, data string) (version string, err error) {
	var now running
	err = askServer(ctx, data, http.MethodGet, runningRoute, &now)
	if errors.Is(err, errNoServer) {
		return "", fault.Wrap(err, fault.Unavailable, "no control plane serves on %s", data)
	}
	return now.Version, err
}

var errNoServer = errors.New("no server answers on the admin socket")

// askServer asks the server that runs on a data folder; errNoServer when none does.
func askServer(ctx context.Context, data, method, route string, into any) error {
	path, _, err := adminPath(data)
	if err != nil {
		return err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return ownersocket.Dial(ctx, path) }
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://admin"+route, nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return errNoServer
	}
	if words := refusedSocket(err); errors.Is(words, fault.Conflict) {
		return words
	}
	if err != nil {
		return fault.Wrap(err, fault.Unavailable, "the server on %s does not answer at %s: %v", data, path, err).WithHint("run this as the server's user")
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("read answer of %s: %w", path, err)
	}
	var answer struct {
		Error *fault.Error `json:"error"`
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return fmt.Errorf("read answer of %s: %w", path, err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("read answer of %s: %w", path, err)
	}
	return nil
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
func (p *plane) adminServer(version string) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+ownerTokenRoute, p.admin("make owner token", func(ctx context.Context) (any, error) {
		token, err := p.auth.NewOwnerToken(ctx)
		if err == nil {
			p.log.InfoContext(ctx, "a new owner token was made through the admin socket")
		}
		return ownerToken{token}, err
	}))
	mux.HandleFunc("GET "+runningRoute, p.admin("say what runs", func(ctx context.Context) (any, error) {
		return running{version}, p.isReady(ctx)
	}))
	return &http.Server{Handler: mux, ReadHeaderTimeout: adminTimeout, ReadTimeout: adminTimeout, WriteTimeout: adminTimeout}
}

// admin is a handler of the admin socket.
func (p *plane) admin(what string, do func(context.Context) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := do(r.Context())
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			e := fault.Of(err)
			p.log.ErrorContext(r.Context(), "answer the admin socket", slog.String("what", what), slog.Any("cause", err))
			w.WriteHeader(e.Code.Status())
			answer = map[string]any{"error": e}
		}
		_ = json.NewEncoder(w).Encode(answer) // the asker may be gone: nobody is left to tell
	}
}
