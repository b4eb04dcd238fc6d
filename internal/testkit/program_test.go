package testkit_test

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"interlock.sh/internal/testkit"
)

func TestAPortIsGivenOnce(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port := testkit.FreePort(t)
		if seen[port] {
			t.Fatalf("%d was given twice", port)
		}
		seen[port] = true
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
}

// Programs that are written and run beside each other: none is "busy".
func TestProgramsAreWrittenAndRunSideBySide(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for m := range 20 {
				path := filepath.Join(dir, fmt.Sprintf("%d-%d", n, m))
				testkit.WriteProgram(t, path, []byte("#!/bin/sh\nexit 0\n"))
				if out, err := exec.Command(path).CombinedOutput(); err != nil {
					t.Errorf("%s: %v: %s", path, err, out)
				}
			}
		})
	}
	all.Wait()
}
