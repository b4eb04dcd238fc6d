package hardware

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/fault"
)

// good are settings that are in order; change makes them another.
func good(change ...string) map[string]string {
	vars := map[string]string{EnvURL: "https://fleet.example", EnvKey: "il_1", EnvWorker: "garage", EnvAlias: "tiny", EnvModel: "/m.gguf"}
	for i := 0; i < len(change); i += 2 {
		vars[change[i]] = change[i+1]
	}
	return vars
}

func TestSettingsThatAreRefused(t *testing.T) {
	home := Home(t.TempDir())
	for name, c := range map[string]struct {
		vars map[string]string
		want string
	}{
		"no address":         {good(EnvURL, ""), "INTERLOCK_URL is missing"},
		"no key":             {good(EnvKey, ""), "INTERLOCK_TASK_WORKER_KEY is missing"},
		"no worker":          {good(EnvWorker, ""), "INTERLOCK_WORKER_ID is missing"},
		"a worker's bell":    {good(EnvWorker, "a\ab"), "control characters"},
		"an endless alias":   {good(EnvAlias, strings.Repeat("x", 4000)), "the limit is"},
		"slots in words":     {good(EnvSlots, "two"), `LLM_SLOTS is "two"; it is a number from 1 to 64`},
		"no slots":           {good(EnvSlots, "0"), "LLM_SLOTS"},
		"a negative context": {good(EnvContext, "-1"), "LLM_CONTEXT"},
		"remote in words":    {good(EnvAllowRemote, "yes"), `LLM_ALLOW_REMOTE is "yes"; it is 1 or 0`},
		"another machine":    {good(EnvServer, "http://10.0.0.7:8080"), "10.0.0.7 is not this machine: prompts would leave it"},
		"another by name":    {good(EnvServer, "http://gpu.lan:8080"), "gpu.lan is not this machine"},
		"all addresses":      {good(EnvServer, "http://0.0.0.0:8080"), "0.0.0.0 is not this machine"},
		"like loopback":      {good(EnvServer, "http://127.0.0.1.evil.example"), "is not this machine"},
		"a key in it":        {good(EnvServer, "http://u:p@127.0.0.1:1"), "no plain http address"},
		"a query":            {good(EnvServer, "http://127.0.0.1:1/?key=1"), "no plain http address"},
		"another scheme":     {good(EnvServer, "ftp://127.0.0.1"), "no plain http address"},
		"a port alone":       {good(EnvServer, "8080"), "no plain http address"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := home.Parse(c.vars)
			if f := fault.Of(err); err == nil || f.Code != fault.Invalid || !strings.Contains(err.Error(), c.want) {
				t.Errorf("said %v, want %q", err, c.want)
			}
		})
	}
}

func TestSettingsThatAreTaken(t *testing.T) {
	home := Home(t.TempDir())
	for name, c := range map[string]struct {
		vars map[string]string
		ok   func(Settings) bool
	}{
		"own, with the usual": {good(), func(s Settings) bool { return s.Slots == 1 && s.Context == 4096 && s.Server == "" }},
		"loopback":            {good(EnvServer, "http://127.0.0.1:8080/"), func(s Settings) bool { return s.Server == "http://127.0.0.1:8080" && s.Context == 0 && s.Slots == 0 }},
		"loopback, v6":        {good(EnvServer, "http://[::1]:8080"), func(s Settings) bool { return s.Server != "" }},
		"localhost":           {good(EnvServer, "http://localhost:8080"), func(s Settings) bool { return s.Server != "" }},
		"remote by choice":    {good(EnvServer, "http://10.0.0.7:8080", EnvAllowRemote, "1"), func(s Settings) bool { return s.AllowRemote }},
		"the known profile":   {good(EnvAlias, "", EnvModel, ""), func(s Settings) bool { return s.Alias == "qwen3-6-35b-a3b" && s.Model == "" }},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := home.Parse(c.vars); err != nil || !c.ok(s) {
				t.Errorf("%+v %v", s, err)
			}
		})
	}
}

// The weights of a known profile are found where people are told to put them.
func TestWeightsInTheModelsFolder(t *testing.T) {
	home := Home(t.TempDir())
	if err := home.prepare(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home.Models(), "Qwen3.6-35B-A3B-Q8_0.gguf")
	if err := os.WriteFile(path, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := home.Parse(good(EnvAlias, "", EnvModel, "")); err != nil || s.Model != path {
		t.Errorf("%+v %v", s, err)
	}
}

func TestTheFileOfSettings(t *testing.T) {
	home := Home(filepath.Join(t.TempDir(), "state"))
	if vars, err := home.Variables(); err != nil || len(vars) != 0 {
		t.Errorf("without a file: %v %v", vars, err)
	}
	want := good("HTTPS_PROXY", "http://proxy", EnvModel, "/with space/ü.gguf")
	if err := home.Write(want); err != nil {
		t.Fatal(err)
	}
	got, err := home.Variables()
	if err != nil || len(got) != len(want) {
		t.Fatalf("%v %v", got, err)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, was %q", k, got[k], v)
		}
	}
	if st, err := os.Stat(home.Env()); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", st.Mode(), err)
	}
	// A value cannot become a second line.
	if err := home.Write(good(EnvModel, "/m\nINTERLOCK_URL=http://evil")); err == nil {
		t.Error("a line end in a value was taken")
	}
	if err := os.WriteFile(home.Env(), []byte("# a comment\n\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := home.Settings(); err == nil || !strings.Contains(err.Error(), "line 3 is no NAME=value") {
		t.Errorf("a damaged file: %v", err)
	}
	for _, mode := range []os.FileMode{0o604, 0o640, 0o666} {
		if err := os.Chmod(home.Env(), mode); err != nil {
			t.Fatal(err)
		}
		if _, err := home.Variables(); err == nil || !strings.Contains(err.Error(), "others could read the key") {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
}
