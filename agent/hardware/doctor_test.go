package hardware

import (
	"os"
	"strings"
	"testing"

	"interlock.sh/access"
	"interlock.sh/agent/localapi"
	"interlock.sh/internal/testkit/fakellama"
)

// of finds a check by its name; a check that was not made is none.
func of(checks []localapi.Check, name string) localapi.Check {
	for _, c := range checks {
		if c.Name == name {
			return c
		}
	}
	return localapi.Check{}
}

func TestDoctorOfAHealthyWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t, EnvLlamaServer, fakellama.Install(t, fakellama.Config{}))
	r.start()
	r.awaitWords("ready")
	for _, c := range r.home.Doctor(t.Context(), "test") {
		if !c.OK && c.Name != "disk" { // the disk is this computer's
			t.Errorf("%s: %s (%s)", c.Name, c.Detail, c.Fix)
		}
	}
}

// Each broken machine is found by one check, which says what to do.
func TestDoctorOfBrokenMachines(t *testing.T) {
	for name, c := range map[string]struct {
		change []string
		spoil  func(t *testing.T, r *rig)
		check  string
		detail string
	}{
		"the key is readable":     {nil, func(t *testing.T, r *rig) { chmod(t, r.home.Env(), 0o644) }, "permissions", "has mode"},
		"others write the folder": {nil, func(t *testing.T, r *rig) { chmod(t, string(r.home), 0o777) }, "permissions", "has mode"},
		"no settings":             {nil, func(t *testing.T, r *rig) { remove(t, r.home.Env()) }, "permissions", "no such file"},
		"damaged settings":        {nil, func(t *testing.T, r *rig) { write(t, r.home.Env(), "nonsense\n") }, "settings", "no NAME=value"},
		"another kind of key":     {nil, func(_ *testing.T, r *rig) { r.vars[EnvKey] = r.plane.NewKey(access.SDK); r.write() }, "control plane", "the key is of kind sdk"},
		"a key of nobody":         {[]string{EnvKey, "il_" + strings.Repeat("0", 48)}, nil, "control plane", "not known"},
		"nobody at the address":   {[]string{EnvURL, "http://127.0.0.1:1"}, nil, "control plane", "127.0.0.1:1"},
		"a server without a key":  {[]string{EnvServer, "http://127.0.0.1:1"}, nil, "model boundary", "has no key"},
		"prompts leave":           {[]string{EnvServer, "http://192.0.2.1:1", EnvAllowRemote, "1"}, nil, "model boundary", "prompts leave this machine for http://192.0.2.1:1"},
		"no model server there":   {[]string{EnvServer, "http://127.0.0.1:1"}, nil, "model server", "does not answer"},
		"no llama-server":         {[]string{EnvLlamaServer, "/nowhere"}, nil, "llama-server", "not found"},
		"no weights":              {[]string{EnvModel, ""}, nil, "model", "no weights are named"},
		"it does not run":         {nil, nil, "worker", "it does not run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, append([]string{EnvLlamaServer, fakellama.Install(t, fakellama.Config{})}, c.change...)...)
			if c.spoil != nil {
				c.spoil(t, r)
			}
			got := of(r.home.Doctor(t.Context(), "test"), c.check)
			if got.OK != got.Warn || !strings.Contains(got.Detail, c.detail) || got.Fix == "" {
				t.Errorf("%+v, want %q and a way out", got, c.detail)
			}
		})
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
