package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

// The test binary runs itself as a child that can be killed or shut into a namespace.
const childEnv = "INTERLOCK_STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		if err := childRoles()[role](os.Args[1]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func childRoles() map[string]func(dir string) error {
	return map[string]func(dir string) error{"writer": childWriter, "mounts": childMounts}
}

func child(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, dir)
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// childWriter writes from many goroutines until it is killed, and prints each id that was acknowledged.
func childWriter(dir string) error {
	db, err := Open(context.Background(), Options{Dir: dir, Migrations: schema()})
	if err != nil {
		return err
	}
	var newest int64
	if err := db.QueryRow(context.Background(), "SELECT coalesce(max(id), 0) FROM items").Scan(&newest); err != nil {
		return err
	}
	failed := make(chan error)
	const writers = 16
	for w := range int64(writers) {
		go func() {
			for id := newest + 1 + w; ; id += writers {
				if err := db.Write(context.Background(), Lane(w%int64(laneCount)), insert(id)); err != nil {
					failed <- err
					return
				}
				fmt.Println(id) // one write(2): what was printed was acknowledged
			}
		}()
	}
	return <-failed
}

func TestWhatWasAcknowledgedOutlivesAKill(t *testing.T) {
	dir := t.TempDir()
	var acknowledged []int64
	for round := range 5 {
		cmd := child(t, "writer", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() }) // should it hang
		lines := bufio.NewScanner(out)
		for seen := 0; lines.Scan(); seen++ {
			id, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil {
				t.Fatalf("round %d: the child says %q", round, lines.Text())
			}
			acknowledged = append(acknowledged, id)
			if seen == 300+97*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was killed
		kill.Stop()
	}
	db := open(t, dir, nil)
	stored := ids(t, db)
	for _, id := range acknowledged {
		if _, ok := slices.BinarySearch(stored, id); !ok {
			t.Errorf("%d was acknowledged and is lost", id)
		}
	}
	if len(acknowledged) < 5*300 {
		t.Errorf("only %d were acknowledged", len(acknowledged))
	}
}
