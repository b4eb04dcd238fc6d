package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"interlock.sh/internal/atomicfile"
	"interlock.sh/internal/clock"
)

const childEnv = "INTERLOCK_RELEASE_TEST_CHILD"

// TestMain is also the release machine that dies: the test binary runs itself as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		os.Exit(sayVersion())
	}
	if command := os.Getenv(childEnv); command != "" {
		if err := die(command, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// commands are what a release machine may be doing when it dies.
var commands = map[string]func(r *Repository, keys *Keyring, dist string) error{
	"publish": func(r *Repository, keys *Keyring, dist string) error {
		d, dir, err := ReadDescription(dist)
		if err == nil {
			_, err = r.Sign(context.Background(), d, dir, everybody, keys)
		}
		if err == nil {
			_, err = r.Publish(context.Background(), keys)
		}
		return err
	},
	"refresh": func(r *Repository, keys *Keyring, _ string) error {
		_, err := r.Refresh(context.Background(), keys)
		return err
	},
	"rotate": func(r *Repository, keys *Keyring, _ string) error {
		_, err := r.Rotate(context.Background(), replacements("targets-1", "snapshot-1", "timestamp-1", "root-1"), keys)
		return err
	},
}

const late = 65 * day // targets and snapshot are tired then, and the first timestamp is over

// die runs a command and ends in the middle of the write after so many.
func die(command, dir, keys, dist, writes string) error {
	left, err := strconv.Atoi(writes)
	if err != nil {
		return err
	}
	r, err := Open(dir, clock.NewFake(noon.Add(late)))
	if err != nil {
		return err
	}
	ring, err := ringOf(keys)
	if err != nil {
		return err
	}
	r.write = func(path string, data []byte) error {
		if left--; left < 0 {
			// Half of the bytes under the temporary name, and then the power goes.
			return errors.Join(os.WriteFile(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp-1"), data[:len(data)/2], 0o600),
				syscall.Kill(os.Getpid(), syscall.SIGKILL))
		}
		return atomicfile.Write(path, data, 0o644)
	}
	return commands[command](r, ring, dist)
}

// A machine that dies at any write leaves a repository that machines read and that the next command
// goes on with.
func TestADeadReleaseMachine(t *testing.T) {
	t.Parallel()
	for command := range commands {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			for writes := 0; ; writes++ {
				if dieAfter(t, command, writes) {
					t.Logf("%s makes %d writes", command, writes)
					return
				}
			}
		})
	}
}

// dieAfter lets a release machine die after so many writes; done is true when it made no more than that.
func dieAfter(t *testing.T, command string, writes int) (done bool) {
	t.Helper()
	l := newLab(t)
	l.sign("1.0.0", "linux-amd64")
	l.publish()
	old := l.machine()
	old.sees(1)
	d, dist := l.dist("1.1.0", "", "interlock-linux-amd64", "interlock-linux-arm64")
	if _, err := d.Save(dist); err != nil {
		t.Fatal(err)
	}
	l.clock.Advance(late)
	if _, err := l.refresh(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], l.dir, l.keys, dist, strconv.Itoa(writes))
	cmd.Env = append(os.Environ(), childEnv+"="+command)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		done = true
	case !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL:
		t.Fatalf("%v\n%s", err, out)
	}
	for _, m := range []*machine{old, l.machine()} {
		got, err := m.update()
		if err != nil || len(got) != 1 && (command != "publish" || len(got) != 3) {
			t.Fatalf("%s died after %d writes: the machine sees %v, %v", command, writes, got, err)
		}
	}
	// The next command goes on.
	l.must(func(r *Repository) error { return commands["publish"](r, l.ring(), dist) })
	old.sees(3)
	l.machine().sees(3)
	return done
}
