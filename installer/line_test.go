package installer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/internal/testkit"
)

func TestPastedLineIsTheBlockOfTheDocumentation(t *testing.T) {
	for _, c := range []struct {
		name string
		spec LineSpec
		want string
	}{
		{"plain", LineSpec{URL: "https://project.example/", Group: "my-model", Role: "client", Key: "ilc_1"},
			`export INTERLOCK_MODEL_KEY='ilc_1'
curl -fsSL https://project.example/assets/install-model-host.sh | sh -s -- \
  --url https://project.example --group my-model --role client
unset INTERLOCK_MODEL_KEY
`},
		{"all options", LineSpec{URL: "https://box:8443", Group: "my-model", Role: "trainer", Key: "ilt_1",
			Pin: "sha256//ab+/="},
			`export INTERLOCK_MODEL_KEY='ilt_1'
curl -fsSL -k --pinnedpubkey 'sha256//ab+/=' https://box:8443/assets/install-model-host.sh | sh -s -- \
  --url https://box:8443 --group my-model --role trainer --pin 'sha256//ab+/='
unset INTERLOCK_MODEL_KEY
`},
		{"http by choice", LineSpec{URL: "http://10.0.0.2:8090", Group: "m", Role: "client", Key: "k", InsecureHTTP: true},
			`export INTERLOCK_MODEL_KEY='k'
curl -fsSL http://10.0.0.2:8090/assets/install-model-host.sh | sh -s -- \
  --url http://10.0.0.2:8090 --group m --role client --insecure-http
unset INTERLOCK_MODEL_KEY
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := PastedLine(c.spec); got != c.want {
				t.Fatalf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestPastedLineCarriesNastyNames runs the block with a curl that hands the shell a script which records
// its arguments, and compares them with what went in.
func TestPastedLineCarriesNastyNames(t *testing.T) {
	dir := t.TempDir()
	fake := "#!/bin/sh\nprintf '%s' 'printf \"%s|\" \"$INTERLOCK_MODEL_KEY\" \"$@\"'\n"
	testkit.WriteProgram(t, filepath.Join(dir, "curl"), []byte(fake))
	for _, name := range []string{
		"my model", "it's", "$(touch HACKED)", "`touch HACKED`", "a;touch HACKED", "!!", "a\\b", "\"", "--role", "*",
		"Ünïcödé 模型", "\x1b[31mred", "a\nb", "tab\there", "right\u202eleft", "100%d", "!\x1b'",
	} {
		t.Run(name, func(t *testing.T) {
			line := PastedLine(LineSpec{URL: "https://x", Group: name, Role: "client", Key: "k'" + name})
			for _, r := range strings.ReplaceAll(line, "\n", "") {
				if r < ' ' || r == '\u202e' {
					t.Errorf("the line holds the character %q, which a terminal acts upon", r)
				}
			}
			cmd := exec.Command("sh", "-c", line)
			cmd.Dir = t.TempDir()
			cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s\n%s", err, out, line)
			}
			if want := "k'" + name + "|--url|https://x|--group|" + name + "|--role|client|"; string(out) != want {
				t.Errorf("the script got %q, want %q", out, want)
			}
			if left, _ := os.ReadDir(cmd.Dir); len(left) != 0 {
				t.Errorf("the name ran as a command: %v", left)
			}
		})
	}
}
