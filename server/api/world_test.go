package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"interlock.sh/access"
	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
	kit "interlock.sh/internal/testkit/plane"
	"interlock.sh/server"
	"interlock.sh/tasks"
)

// world is a control plane with two accounts that see nothing of each other: the owner's project "mine"
// has a group, machines, a deployment, a run and keys; "theirs" is the stranger's.
type world struct {
	*kit.Plane
	t     *testing.T
	clock *clock.Fake
	http  *http.Client

	mine, theirs *client.Client
	group        kit.Group
	machine      *kit.Machine
	trainer      *kit.Machine
	deployment   fleet.Deployment
	creds        map[string]string // by kind, "revoked <kind>", and a few more
	keyIDs       map[string]string
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newWorld(t *testing.T) *world { return newWorldWith(t, kit.Options{}) }

// newWorldWith is a world on a plane that differs.
func newWorldWith(t *testing.T, o kit.Options) *world {
	t.Helper()
	fake := clock.NewFake(noon)
	o.Clock = fake
	w := &world{Plane: kit.Start(t, o), t: t, clock: fake, creds: map[string]string{}, keyIDs: map[string]string{}}
	w.http = newHTTP(t)

	used := w.ownerToken()
	login, err := w.Client("").Login(t.Context(), access.LoginRequest{Token: used, Name: "stranger"})
	if err != nil {
		t.Fatal(err)
	}
	w.creds["account"], w.creds["stranger"], w.creds["revoked owner"] = w.Token, login.Token, used
	w.mine = w.NewProject("mine")
	stranger := w.Client(login.Token)
	if _, err := stranger.NewProject(t.Context(), access.NewProjectRequest{ID: "theirs"}); err != nil {
		t.Fatal(err)
	}
	w.theirs = stranger.WithProject("theirs")

	w.group = w.NewGroup(w.mine, "Garage models")
	w.deployment = w.Deploy(w.mine, w.group, "tiny", 1)
	w.machine, w.trainer = w.Enroll(w.group, fleet.RoleClient, "garage"), w.Enroll(w.group, fleet.RoleTrainer, "gym")
	w.machine.Serve(w.deployment, 2)
	w.creds["machine"], w.creds["trainer machine"] = w.machine.Credential, w.trainer.Credential
	w.keys()
	return w
}

func newHTTP(t *testing.T) *http.Client {
	c := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// keys makes a live and a revoked credential of every kind.
func (w *world) keys() {
	w.t.Helper()
	ctx := w.t.Context()
	for _, kind := range access.ProjectKinds {
		for _, name := range []string{string(kind), "revoked " + string(kind)} {
			key, err := w.mine.NewKey(ctx, "mine", access.NewKeyRequest{Kind: kind, Label: name})
			if err != nil {
				w.t.Fatal(err)
			}
			w.creds[name], w.keyIDs[name] = key.Key, key.ID
			if strings.HasPrefix(name, "revoked") {
				if _, err := w.mine.RevokeKey(ctx, "mine", key.ID); err != nil {
					w.t.Fatal(err)
				}
			}
		}
		key, err := w.theirs.NewKey(ctx, "theirs", access.NewKeyRequest{Kind: kind, Label: "theirs"})
		if err != nil {
			w.t.Fatal(err)
		}
		w.creds["their "+string(kind)] = key.Key
	}
	for _, role := range []fleet.Role{fleet.RoleClient, fleet.RoleTrainer} {
		w.creds["revoked "+string(role)] = w.group.Keys[role]
		key, err := w.mine.RotateGroupKey(ctx, w.group.ID, role)
		if err != nil {
			w.t.Fatal(err)
		}
		w.creds[string(role)], w.group.Keys[role] = key.Key, key.Key
	}
	gone := w.Enroll(w.group, fleet.RoleClient, "gone")
	if _, err := w.mine.ActOnMachine(ctx, gone.ID, client.MachineRevoke); err != nil {
		w.t.Fatal(err)
	}
	w.creds["revoked machine"] = gone.Credential
	w.creds["owner"] = w.ownerToken()
	w.creds["garbage"] = "il_" + strings.Repeat("0", 48)
	w.creds["none"] = ""
}

func (w *world) ownerToken() string {
	w.t.Helper()
	token, err := server.NewOwnerToken(w.t.Context(), w.Data, w.clock)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// reply is an answer with its coded error, if it is one.
type reply struct {
	status int
	err    fault.Error
	header http.Header
	body   string
}

// call sends a request; of an answer that streams it reads the header only.
func (w *world) call(method, path, credential string, body any) reply {
	w.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	case io.Reader:
		r = b
	default:
		text, err := json.Marshal(b)
		if err != nil {
			w.t.Fatal(err)
		}
		r = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), kit.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.URL+path, r)
	if err != nil {
		w.t.Fatal(err)
	}
	if credential != "" {
		req.Header.Set("Authorization", "Bearer "+credential)
	}
	if r != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := w.http.Do(req)
	if err != nil {
		w.t.Fatal(method, path, err)
	}
	defer resp.Body.Close()
	out := reply{status: resp.StatusCode, header: resp.Header}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return out
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	out.body = string(text)
	if resp.StatusCode >= 300 && !strings.HasPrefix(path, "/v1/") {
		var coded struct {
			Error fault.Error `json:"error"`
		}
		if err := json.Unmarshal(text, &coded); err != nil || coded.Error.Code == "" || coded.Error.Message == "" {
			w.t.Fatalf("%s %s: %d without a coded error: %s", method, path, resp.StatusCode, text)
		}
		out.err = coded.Error
	}
	return out
}

// refused checks the code of a refusal and that its text says something.
func (w *world) refused(what string, got reply, code fault.Code, field string) {
	w.t.Helper()
	if got.err.Code != code || got.status != code.Status() || field != "" && got.err.Field != field {
		w.t.Errorf("%s: %d %s (field %q): %s; want %s (field %q)", what, got.status, got.err.Code, got.err.Field, got.body, code, field)
	}
}

// run submits a run of the world's deployment with an sdk key.
func (w *world) run(prompt string) ai.Run {
	w.t.Helper()
	run, err := w.Client(w.creds["sdk"]).SubmitRun(w.t.Context(), ai.RunRequest{Model: w.deployment.Alias, Prompt: prompt})
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// task submits a plain task with a producer key.
func (w *world) task() tasks.View {
	w.t.Helper()
	v, err := w.Client(w.creds["task-producer"]).SubmitTask(w.t.Context(), tasks.SubmitRequest{Type: "demo/hello", SchemaVersion: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// awaitParked waits until so many claims are parked, as the metrics tell.
func (w *world) awaitParked(n int) {
	w.t.Helper()
	kit.Await(w.t, "parked claims", func() bool { return w.gauge("interlock_http_parked_claims") == float64(n) })
}

// gauge reads a series of the metrics by its name with labels.
func (w *world) gauge(series string) float64 {
	w.t.Helper()
	return w.gaugeAs("metrics", series)
}

func (w *world) gaugeAs(credential, series string) float64 {
	w.t.Helper()
	for line := range strings.Lines(w.call("GET", "/api/metrics", w.creds[credential], nil).body) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == series {
			f, err := strconv.ParseFloat(value, 64)
			if err != nil {
				w.t.Fatal(err)
			}
			return f
		}
	}
	return -1
}
