package profile

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"interlock.sh/fault"
)

// world is a home, a working folder below a project, and an environment.
type world struct {
	t   *testing.T
	env Env
	set map[string]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	root := t.TempDir()
	w := &world{t: t, set: map[string]string{}}
	w.env = Env{
		Home: filepath.Join(root, "home"), Dir: filepath.Join(root, "project", "code", "deep"),
		Getenv: func(k string) string { return w.set[k] },
	}
	for _, d := range []string{w.env.Home, w.env.Dir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) project() string { return filepath.Dir(filepath.Dir(w.env.Dir)) }

func (w *world) write(path, text string, mode os.FileMode) string {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) config(name string, c Config) string {
	w.t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.write(filepath.Join(w.env.Home, ".interlock", name), string(data), 0o600)
}

func (w *world) key(text string) string {
	return w.write(filepath.Join(w.project(), KeyFileName), text, 0o600)
}

func TestResolutionOrder(t *testing.T) {
	const a, b, c = "https://a.example", "https://b.example", "https://c.example"
	keyOn := func(api string) string {
		return `{"version":1,"project":"kp","api":"` + api + `","key":"file-key"}`
	}
	tests := []struct {
		name     string
		flags    Flags
		env      map[string]string
		prod     *Config
		local    *Config
		key      string
		base     string
		profile  Name
		cred     string
		source   Source
		project  string
		held     string // text of the one warning
		insecure bool
		pin      string
	}{
		{name: "nothing at all", base: DefaultAPI, profile: Prod, source: FromNowhere},
		{name: "profile alone", prod: &Config{API: a, Token: "tok", Project: "pp"}, base: a, profile: Prod, cred: "tok", source: FromProfile, project: "pp"},
		{name: "INTERLOCK_URL beats the profile", env: map[string]string{"INTERLOCK_URL": b}, prod: &Config{API: a}, base: b, profile: Prod, source: FromNowhere},
		{name: "--api beats INTERLOCK_URL", flags: Flags{API: c}, env: map[string]string{"INTERLOCK_URL": b}, prod: &Config{API: a}, base: c, profile: Prod, source: FromNowhere},
		{name: "a login stays with its server", flags: Flags{API: c}, prod: &Config{API: a, Token: "tok", Project: "pp", Pin: "p", InsecureHTTP: true}, base: c, profile: Prod, source: FromNowhere, held: "was not sent to https://c.example"},
		{name: "loopback names are one host", flags: Flags{API: "http://127.0.0.1:8090/"}, prod: &Config{Token: "tok"}, base: "http://127.0.0.1:8090/", profile: Prod, cred: "tok", source: FromProfile},
		{name: "another port is another server", flags: Flags{API: "http://127.0.0.1:8091"}, prod: &Config{Token: "tok"}, base: "http://127.0.0.1:8091", profile: Prod, source: FromNowhere, held: "was not sent to"},
		{name: "the key file beats the login", prod: &Config{API: a, Token: "tok", Project: "pp"}, key: keyOn(a), base: a, profile: Prod, cred: "file-key", source: FromKeyFile, project: "kp"},
		{name: "a legacy key says no server", prod: &Config{API: a, Token: "tok"}, key: "il_legacy\n", base: a, profile: Prod, cred: "il_legacy", source: FromKeyFile},
		{name: "a key of another server is held back", prod: &Config{API: a, Token: "tok"}, key: keyOn(b), base: a, profile: Prod, cred: "tok", source: FromProfile, held: "is for https://b.example and was not sent to https://a.example"},
		{name: "INTERLOCK_SDK_KEY beats the key file", env: map[string]string{"INTERLOCK_SDK_KEY": " env-key "}, prod: &Config{API: a, Token: "tok"}, key: keyOn(a), base: a, profile: Prod, cred: "env-key", source: FromEnv},
		{name: "and does not even read it", env: map[string]string{"INTERLOCK_SDK_KEY": "env-key"}, key: "{broken", base: DefaultAPI, profile: Prod, cred: "env-key", source: FromEnv},
		{name: "--project beats the profile's", flags: Flags{Project: "fp"}, prod: &Config{API: a, Token: "tok", Project: "pp"}, base: a, profile: Prod, cred: "tok", source: FromProfile, project: "fp"},
		{name: "--local", flags: Flags{Local: true}, prod: &Config{API: a}, local: &Config{API: b, Token: "lt"}, base: b, profile: Local, cred: "lt", source: FromProfile},
		{name: "invoked as interlock-local", flags: Flags{Program: "/usr/bin/interlock-local"}, prod: &Config{API: a}, local: &Config{API: b}, base: b, profile: Local, source: FromNowhere},
		{name: "INTERLOCK_PROFILE=local", env: map[string]string{"INTERLOCK_PROFILE": "local"}, prod: &Config{API: a}, base: DefaultAPI, profile: Local, source: FromNowhere},
		{name: "trust kept in the profile", prod: &Config{API: "http://lab:8090", Token: "t", InsecureHTTP: true}, base: "http://lab:8090", profile: Prod, cred: "t", source: FromProfile, insecure: true},
		{name: "--pin beats the profile's", flags: Flags{Pin: "flag"}, prod: &Config{API: a, Pin: "kept"}, base: a, profile: Prod, source: FromNowhere, pin: "flag"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			for k, v := range tt.env {
				w.set[k] = v
			}
			if tt.prod != nil {
				w.config("config.json", *tt.prod)
			}
			if tt.local != nil {
				w.config("local.json", *tt.local)
			}
			if tt.key != "" {
				w.key(tt.key)
			}
			r, err := Resolve(tt.flags, w.env)
			if err != nil {
				t.Fatal(err)
			}
			type answer struct {
				Base, Cred, Project, Pin string
				Profile                  Name
				Source                   Source
				Insecure                 bool
			}
			want := answer{tt.base, tt.cred, tt.project, tt.pin, tt.profile, tt.source, tt.insecure}
			got := answer{r.BaseURL, r.Credential, r.Project, r.Pin, r.Profile, r.CredentialSource, r.InsecureHTTP}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("resolved (-want +got):\n%s", diff)
			}
			if tt.held == "" && len(r.Warnings) > 0 || tt.held != "" && (len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], tt.held)) {
				t.Errorf("warnings %q, want one with %q", r.Warnings, tt.held)
			}
			if r.CredentialSource == FromKeyFile && r.KeyDir != w.project() {
				t.Errorf("the key governs %s, want %s", r.KeyDir, w.project())
			}
			for _, warn := range r.Warnings {
				for _, secret := range []string{"tok", "file-key", "env-key"} {
					if strings.Contains(strings.ReplaceAll(warn, "interlock", ""), secret) {
						t.Errorf("warning %q has the secret %q in it", warn, secret)
					}
				}
			}
		})
	}
}

func TestBadFilesNameTheFileAndTheWayOut(t *testing.T) {
	const secret = "il_sdk_abcdef"
	tests := []struct {
		name, profile, key string
		want, hint         string
		code               fault.Code
	}{
		{name: "profile cut off", profile: `{"token":"` + secret, want: "is no valid JSON: it breaks off", hint: "interlock login", code: fault.Malformed},
		{name: "profile with a wrong type", profile: `{"token":7}`, want: `field "token" is a JSON number`, hint: "interlock login", code: fault.Malformed},
		{name: "key file empty", key: " \n", want: "is empty", hint: "put the project's key back", code: fault.Malformed},
		{name: "key file of a later version", key: `{"version":2,"key":"` + secret + `"}`, want: "has version 2; this program reads version 1", hint: "move the file away", code: fault.Malformed},
		{name: "key file without a key", key: `{"version":1}`, want: `has no key in its field "key"`, hint: "put the project's key back", code: fault.Malformed},
		{name: "key file of several lines", key: secret + "\nmore", want: "neither the JSON document nor one line", hint: "move the file away", code: fault.Malformed},
		{name: "key file cut off", key: `{"version":1,"key":"` + secret, want: "is no valid JSON", hint: "move the file away", code: fault.Malformed},
		{name: "profile is huge", profile: strings.Repeat("x", maxFile+1), want: "the limit is 65536", hint: "move it away", code: fault.Invalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			var path string
			if tt.profile != "" {
				path = w.write(filepath.Join(w.env.Home, ".interlock", "config.json"), tt.profile, 0o600)
			} else {
				path = w.key(tt.key)
			}
			_, err := Resolve(Flags{}, w.env)
			var f *fault.Error
			if !errors.As(err, &f) || f.Code != tt.code {
				t.Fatalf("got %v, want a %s fault", err, tt.code)
			}
			if !strings.Contains(f.Message, tt.want) || !strings.Contains(f.Message, path) || !strings.Contains(f.Hint, tt.hint) {
				t.Errorf("got %q, hint %q; want %q, the path and %q", f.Message, f.Hint, tt.want, tt.hint)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the secret is in the text: %v", err)
			}
		})
	}
}

func TestAProfileThatIsAFolderIsRefused(t *testing.T) {
	w := newWorld(t)
	if err := os.MkdirAll(filepath.Join(w.env.Home, ".interlock", "config.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Target(Flags{}, w.env); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "is no file") {
		t.Errorf("got %v", err)
	}
}

func TestAnUnknownProfileNameIsRefused(t *testing.T) {
	w := newWorld(t)
	w.set["INTERLOCK_PROFILE"] = "staging"
	if _, err := Target(Flags{}, w.env); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `"staging"`) {
		t.Errorf("got %v", err)
	}
}

func TestMendTakesABrokenProfileAsAbsent(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.env.Home, ".interlock", "config.json"), "{", 0o600)
	r, err := Target(Flags{Mend: true}, w.env)
	if err != nil || len(r.Warnings) != 1 || r.BaseURL != DefaultAPI {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestFilesThatOthersCanReadAreWarnedOf(t *testing.T) {
	w := newWorld(t)
	cfg := w.config("config.json", Config{Token: "tok"})
	key := w.key("il_legacy")
	for _, path := range []string{cfg, key} {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Resolve(Flags{}, w.env)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Warnings) != 2 || !strings.Contains(r.Warnings[0], "chmod 600 "+cfg) || !strings.Contains(r.Warnings[1], "chmod 600 "+key) {
		t.Errorf("warnings %q", r.Warnings)
	}
}

func TestSaveIsOwnerOnlyAndKeepsALink(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.env.Home, ".interlock", "config.json")
	want := Config{API: "https://a.example", Token: "tok", Project: "p", Pin: "pin", Account: "owner"}
	if err := Save(path, want); err != nil {
		t.Fatal(err)
	}
	for p, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700 | os.ModeDir} {
		if info, err := os.Stat(p); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v %v, want %v", p, info.Mode(), err, mode)
		}
	}
	r, err := Target(Flags{}, w.env)
	if err != nil || r.Config != want {
		t.Errorf("read back %+v, %v", r.Config, err)
	}
	real := w.write(filepath.Join(w.env.Home, "dots", "il.json"), "{}", 0o644)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, path); err != nil {
		t.Fatal(err)
	}
	if err := Save(path, want); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v %v", info.Mode(), err)
	}
	if info, err := os.Stat(real); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file behind the link: %v %v", info.Mode(), err)
	}
}

func TestExplainNamesTheCredentialThatWasRefused(t *testing.T) {
	denied := fault.New(fault.ScopeDenied, "this needs an account").WithHint("x")
	r := Resolved{CredentialSource: FromKeyFile, KeyDir: "/p", Profile: Prod}
	if got := r.Explain(denied).Error(); !strings.Contains(got, "this needs an account") || !strings.Contains(got, "/p/.interlock-key, which wins over the login") {
		t.Errorf("got %q", got)
	}
	other := fault.New(fault.NotFound, "no such group")
	if got := r.Explain(other); !errors.Is(got, fault.NotFound) || got.Error() != "no such group" {
		t.Errorf("got %q", got)
	}
	if err := r.NeedCredential(); !errors.Is(err, fault.Unauthenticated) || !strings.Contains(err.Error(), "interlock login") {
		t.Errorf("got %v", err)
	}
}

func TestWhoseKeyFilesAreObeyed(t *testing.T) {
	for _, tt := range []struct {
		owner, self int
		foreign     bool
	}{{1000, 1000, false}, {0, 1000, false}, {1001, 1000, true}, {1001, 0, false}} {
		if got := foreign(tt.owner, tt.self); got != tt.foreign {
			t.Errorf("a file of %d for %d: foreign is %v", tt.owner, tt.self, got)
		}
	}
}

func TestWritableLeavesNothingBehind(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.env.Home, ".interlock", "config.json")
	if err := Writable(path); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	w.write(filepath.Join(w.env.Home, "file"), "", 0o600)
	if err := Writable(filepath.Join(w.env.Home, "file", "config.json")); !errors.Is(err, fault.Invalid) {
		t.Errorf("below a file: %v", err)
	}
	if err := Writable(""); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "set HOME") {
		t.Errorf("without a home: %v", err)
	}
}
