package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock.sh/internal/clock"
	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/fakellama"
)

func TestTheProgramIsAskedAgainOnlyWhenItIsAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	count := filepath.Join(dir, "asked")
	// A program that notes each start, in front of one that answers.
	place := func(version string) string {
		t.Helper()
		real := fakellama.Install(t, fakellama.Config{Version: version})
		return installScript(t, fmt.Sprintf("echo x >>'%s'\nexec '%s' \"$@\"", count, real))
	}
	asked := func() int {
		b, _ := os.ReadFile(count) // not there: nobody asked
		return strings.Count(string(b), "x")
	}
	link := filepath.Join(dir, "llama-server")
	point := func(to string) {
		t.Helper()
		_ = os.Remove(link)
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	fake := clock.NewFake(time.Unix(0, 0))
	p := &program{setting: link, clock: fake}
	if _, err := p.find(t.Context()); err == nil {
		t.Fatal("found what is not there")
	}
	point(place("1"))
	for range 3 {
		if bin, err := p.find(t.Context()); err != nil || bin.Build != 1 {
			t.Fatalf("%+v, %v", bin, err)
		}
	}
	once := asked()
	if once == 0 || once > 3 {
		t.Errorf("three looks started it %d times", once)
	}
	point(place("2"))
	if bin, err := p.find(t.Context()); err != nil || bin.Build != 2 {
		t.Errorf("after an update: %+v, %v", bin, err)
	}
	before := asked()
	fake.Advance(programFresh)
	if _, err := p.find(t.Context()); err != nil || asked() == before {
		t.Errorf("it is believed for ever: %v", err)
	}
}

// installScript is a llama-server that a shell plays.
func installScript(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "llama-server")
	testkit.WriteProgram(t, path, []byte("#!/bin/sh\n"+body+"\n"))
	return path
}
