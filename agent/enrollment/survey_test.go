package enrollment

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/fleet"
)

// Whatever part of an enrollment is gone, it is named, hides nothing else, and can be reached by what is left.
func TestAHalfDeletedEnrollmentIsDamagedAndStaysInReach(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(e Enrollment) error
		says  string
		words []string // what it is found by
		left  Enrollment
	}{
		{
			"the group's file is gone", func(e Enrollment) error { return os.Remove(filepath.Join(e.Home.Group(e.Group), "group.json")) },
			"group.json is gone", []string{"half-aaaaaa"}, Enrollment{GroupName: "half-aaaaaa", Machine: "mch_half-aaaaaa"},
		},
		{
			"the role's file is gone", func(e Enrollment) error { return os.Remove(filepath.Join(e.Dir(), "role.json")) },
			"role.json is gone", []string{"half-aaaaaa", "half"}, Enrollment{GroupName: "half", Origin: "http://127.0.0.1:1"},
		},
		{
			"both are gone", func(e Enrollment) error {
				return errors.Join(os.Remove(filepath.Join(e.Home.Group(e.Group), "group.json")), os.Remove(filepath.Join(e.Dir(), "role.json")))
			},
			"group.json is gone", []string{"half-aaaaaa"}, Enrollment{GroupName: "half-aaaaaa"},
		},
		{
			"the credential is gone under an agent", func(e Enrollment) error {
				socket, err := e.Home.Socket(e.Group, e.Role)
				if err != nil {
					return err
				}
				l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
				if err != nil {
					return err
				}
				l.SetUnlinkOnClose(false)
				return errors.Join(l.Close(), os.Remove(e.envPath()))
			},
			"worker.env is gone", []string{"half-aaaaaa"}, Enrollment{GroupName: "half-aaaaaa"},
		},
		{
			"the role's file is cut", func(e Enrollment) error { return os.WriteFile(filepath.Join(e.Dir(), "role.json"), []byte("{"), 0o600) },
			"role.json is damaged", []string{"half-aaaaaa", "half"}, Enrollment{GroupName: "half", Origin: "http://127.0.0.1:1"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "ns") // not t.TempDir: a socket's path has 104 bytes at most
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			home := Home(dir)
			stored(t, home, "good", "good", fleet.RoleTrainer)
			if err := c.spoil(stored(t, home, "half-aaaaaa", "half", fleet.RoleClient)); err != nil {
				t.Fatal(err)
			}
			whole, damaged, err := home.Survey()
			if err != nil || len(whole) != 1 || whole[0].Group != "good" || len(damaged) != 1 || !errors.Is(damaged[0].Why, errDamaged) || !strings.Contains(damaged[0].Why.Error(), c.says) {
				t.Fatalf("surveyed %+v, %+v, %v", whole, damaged, err)
			}
			d := damaged[0]
			if d.Group != "half-aaaaaa" || d.Role != fleet.RoleClient || d.GroupName != c.left.GroupName || d.Origin != c.left.Origin || d.Machine != c.left.Machine {
				t.Errorf("left of it: %+v", d.Enrollment)
			}
			for _, words := range c.words {
				if e, err := home.Reach(words, ""); err != nil || e.Dir() != d.Dir() {
					t.Errorf("by %q: %+v, %v", words, e, err)
				}
			}
			if e, err := home.Reach("", fleet.RoleClient); err != nil || e.Dir() != d.Dir() {
				t.Errorf("by its role: %+v, %v", e, err)
			}
			if _, err := home.Reach("", ""); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "2 enrollments") {
				t.Errorf("one of two: %v", err)
			}
			if _, err := home.Find("half-aaaaaa", ""); !errors.Is(err, errDamaged) {
				t.Errorf("for what needs all of it: %v", err)
			}
			if _, err := home.Load("half-aaaaaa", fleet.RoleClient); !errors.Is(err, errDamaged) {
				t.Errorf("loaded: %v", err)
			}
		})
	}
}

// What never was an enrollment, or broke off, is none.
func TestAFolderWithoutACredentialIsNoEnrollment(t *testing.T) {
	home := Home(t.TempDir())
	for group, roles := range map[string]string{"empty": "", "no-role": "roles", "begun": filepath.Join("roles", "client")} {
		if err := os.MkdirAll(filepath.Join(home.Group(group), roles), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	whole, damaged, err := home.Survey()
	if err != nil || len(whole)+len(damaged) != 0 {
		t.Errorf("found %+v, %+v, %v", whole, damaged, err)
	}
	if _, err := home.Reach("", ""); !errors.Is(err, fault.NotFound) {
		t.Errorf("reached: %v", err)
	}
}
