package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"interlock.sh/access"
	"interlock.sh/internal/clock"
	"interlock.sh/server/api"
	"interlock.sh/server/auth"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
	servertasks "interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// scenario is a file of testdata/contract/tasks; its README explains the fields.
type scenario struct {
	About  string   `json:"about"`
	Covers []string `json:"covers"`
	Steps  []step   `json:"steps"`
}

type step struct {
	Advance string `json:"advance"`
	As      string `json:"as"`
	Call    string `json:"call"`
	Body    any    `json:"body"`
	Raw     string `json:"raw"`
	Status  int    `json:"status"`
	Answer  any    `json:"answer"`
}

func TestTheTasksContract(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/contract/tasks/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	var covered []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s scenario
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		covered = append(covered, s.Covers...)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			p := newPlane(t)
			for i, st := range s.Steps {
				if err := p.play(st); err != nil {
					t.Fatalf("step %d: %s %s%s: %v", i+1, st.As, st.Call, st.Advance, err)
				}
			}
		})
	}
	for _, row := range tasks.Transitions {
		if name := strings.TrimSpace(string(row.From) + " " + string(row.Event)); !slices.Contains(covered, name) {
			t.Errorf("no scenario covers the transition %q", name)
		}
	}
}

// plane is a control plane on a clock that stands still, reached over HTTP.
type plane struct {
	clock    *clock.Fake
	db       *store.DB
	tasks    *servertasks.Service
	api      *api.API
	url      string
	keys     map[string]string
	captured map[string]any
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	ctx := context.Background()
	p := &plane{clock: clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), keys: map[string]string{}, captured: map[string]any{}}
	db, err := store.Open(ctx, store.Options{Dir: t.TempDir(), Clock: p.clock})
	if err != nil {
		t.Fatal(err)
	}
	p.db = db
	p.tasks = servertasks.New(servertasks.Options{DB: db, Clock: p.clock})
	hub := new(hints.Hub)
	identity := auth.New(db, hub)
	p.api = api.New(api.Info{Version: "test", Clock: p.clock, Logger: slog.New(slog.DiscardHandler)}, api.Parts{
		Auth: identity, Tasks: p.tasks, Hints: hub, Meters: api.NewMeters(), Ready: func(context.Context) error { return nil },
	})
	srv := httptest.NewServer(p.api)
	p.url = srv.URL
	t.Cleanup(func() {
		p.api.Close()
		srv.Close()
		if err := p.tasks.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := db.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	owner, err := identity.FirstOwnerToken(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var login access.LoginResponse
	p.must(t, "", "POST", "/api/login", access.LoginRequest{Token: owner}, &login)
	p.keys["account"] = login.Token
	for project, prefix := range map[string]string{"demo": "", "elsewhere": "other-"} {
		p.must(t, "account", "POST", "/api/projects", access.NewProjectRequest{ID: project}, nil)
		for name, kind := range map[string]access.Kind{"producer": access.TaskProducer, "worker": access.TaskWorker, "sdk": access.SDK} {
			var key access.NewKey
			p.must(t, "account", "POST", "/api/projects/"+project+"/keys", access.NewKeyRequest{Kind: kind, Label: name}, &key)
			p.keys[prefix+name] = key.Key
		}
	}
	p.sweep(t)
	return p
}

func (p *plane) sweep(t *testing.T) {
	t.Helper()
	if err := p.tasks.Sweep(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (p *plane) must(t *testing.T, as, method, path string, body, into any) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	status, answer, err := p.send(as, method, path, b)
	if err != nil || status >= 300 {
		t.Fatalf("%s %s: %d %s %v", method, path, status, answer, err)
	}
	if into != nil {
		if err := json.Unmarshal(answer, into); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *plane) send(as, method, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequest(method, p.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if key := p.keys[as]; key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

func (p *plane) play(st step) error {
	if st.Advance != "" {
		d, err := time.ParseDuration(st.Advance)
		if err != nil {
			return err
		}
		p.clock.Advance(d)
		return p.tasks.Sweep(context.Background())
	}
	if st.As != "nobody" && p.keys[st.As] == "" {
		return fmt.Errorf("there is no credential %q", st.As)
	}
	method, path, _ := strings.Cut(st.Call, " ")
	path = braces.ReplaceAllStringFunc(path, func(s string) string { return fmt.Sprint(p.captured[s[1:len(s)-1]]) })
	body := []byte(st.Raw)
	if st.Raw == "" && st.Body != nil {
		filled, err := p.fill(st.Body)
		if err != nil {
			return err
		}
		if body, err = json.Marshal(filled); err != nil {
			return err
		}
	}
	status, text, err := p.send(st.As, method, path, body)
	if err != nil {
		return err
	}
	if status != st.Status {
		return fmt.Errorf("status %d, want %d: %.600s", status, st.Status, text)
	}
	if st.Answer == nil {
		return nil
	}
	var answer any
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("answer %.300s: %w", text, err)
	}
	if err := p.match("answer", st.Answer, answer); err != nil {
		return fmt.Errorf("%w in %.1000s", err, text)
	}
	return nil
}

var braces = regexp.MustCompile(`\{\w+\}`)

// fill puts captured values into a request.
func (p *plane) fill(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, one := range v {
			filled, err := p.fill(one)
			if err != nil {
				return nil, err
			}
			out[k] = filled
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i := range v {
			var err error
			if out[i], err = p.fill(v[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case string:
		if name, ok := strings.CutPrefix(v, "$get "); ok {
			got, known := p.captured[name]
			if !known {
				return nil, fmt.Errorf("nothing captured as %q", name)
			}
			return got, nil
		}
		if n, ok := strings.CutPrefix(v, "$text "); ok {
			count, err := strconv.Atoi(n)
			return strings.Repeat("x", count), err
		}
	}
	return v, nil
}

func (p *plane) match(at string, want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is no object", at)
		}
		for k, w := range want {
			g, there := object[k]
			switch {
			case w == "$absent" && there:
				return fmt.Errorf("%s.%s is there", at, k)
			case w == "$absent":
				continue
			case !there:
				return fmt.Errorf("%s.%s is missing", at, k)
			}
			if err := p.match(at+"."+k, w, g); err != nil {
				return err
			}
		}
		return nil
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Errorf("%s has not %d elements", at, len(want))
		}
		for i := range want {
			if err := p.match(fmt.Sprintf("%s[%d]", at, i), want[i], list[i]); err != nil {
				return err
			}
		}
		return nil
	case string:
		if name, ok := strings.CutPrefix(want, "$set "); ok && got != nil {
			p.captured[name] = got
			return nil
		}
		if name, ok := strings.CutPrefix(want, "$get "); ok {
			if !reflect.DeepEqual(got, p.captured[name]) {
				return fmt.Errorf("%s is %v, want %v", at, got, p.captured[name])
			}
			return nil
		}
		if want == "$any" && got != nil {
			return nil
		}
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Errorf("%s is %v, want %v", at, got, want)
	}
	return nil
}
