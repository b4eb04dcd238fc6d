package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, in string
		ok       bool
		want     []string
	}{
		{"all well", `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":1.5}
`, true, []string{"ok    p 1.5s", "1 passed, 0 failed, 0 skipped"}},
		{"a failure shows its output", `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestA","Output":"want 1\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
`, false, []string{"FAIL  p TestA\nwant 1", "0 passed, 1 failed, 0 skipped"}},
		{"a panic of the whole package", `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"panic: no\n"}
{"Action":"fail","Package":"p"}
`, false, []string{"panic: no\nFAIL  p", "0 passed, 1 failed"}},
		{"a build that fails", `{"ImportPath":"p","Action":"build-output","Output":"p.go:1: no\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
`, false, []string{"p.go:1: no", "FAIL  p", "0 passed, 1 failed"}},
		{"a run cut short", `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"half\n"}
`, false, []string{"p ended without a verdict\nhalf", "0 passed, 1 failed"}},
		{"go's own complaint", "no required module\n", false, []string{"no required module"}},
		{"a skip is counted and shown", `{"Action":"output","Package":"p","Test":"TestA","Output":"why\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
`, true, []string{"skip  p TestA\nwhy", "1 skipped"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			ok, err := run(strings.NewReader(c.in), &out, "")
			if err != nil || ok != c.ok {
				t.Fatalf("ok %v, error %v\n%s", ok, err, out.String())
			}
			for _, w := range c.want {
				if !strings.Contains(out.String(), w) {
					t.Errorf("no %q in\n%s", w, out.String())
				}
			}
			if strings.Contains(out.String(), "quiet") {
				t.Errorf("a test that passed was printed:\n%s", out.String())
			}
		})
	}
}

func TestCountsAddUp(t *testing.T) {
	counts := filepath.Join(t.TempDir(), "counts")
	for range 2 {
		var out strings.Builder
		if _, err := run(strings.NewReader(`{"Action":"pass","Package":"p","Test":"TestA"}`+"\n"), &out, counts); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(counts); err != nil || string(got) != "1 0 0\n1 0 0\n" {
		t.Fatalf("counts %q, %v", got, err)
	}
}
