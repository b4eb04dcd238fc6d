package service

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"howett.net/plist"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var fleetUser = account{name: "fleet", uid: 1000, home: "/home/fleet", groups: []string{"render", "video"}}

const testHome = "/home/fleet/.nightshift"

var (
	client  = Spec{Kind: ModelWorker, Group: "my-model-k3x7qa", Role: "client", App: "app"}
	trainer = Spec{Kind: ModelWorker, Group: "my-model-k3x7qa", Role: "trainer", App: "app-0123abcd"}
	looker  = Spec{Kind: Updater, App: "app"}
	own     = Spec{Kind: TaskWorker, App: "app"}
)

// everyUnit are all sorts of units that are ever written.
func everyUnit() map[string]Unit {
	serve, backup := ServeUnits(Serve{
		Program: "/usr/local/lib/interlock/current/interlock", User: "interlock", Data: "/var/lib/interlock",
		Args: []string{"--listen", ":443", "--public-url", "https://fleet.example.org"}, LowPorts: true,
		Keep: 14, BackupAt: "03:30",
	})
	return map[string]Unit{
		"client": client.unit(testHome, testHome, fleetUser), "trainer": trainer.unit(testHome, testHome, fleetUser), "updater": looker.unit(testHome, testHome, fleetUser),
		"task-worker": own.unit(testHome, testHome, fleetUser), "serve": serve, "backup": backup,
	}
}

func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s is now\n%s", name, text)
	}
}

func TestUnitsAreTheGoldenFiles(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(everyUnit())) {
		u := everyUnit()[name]
		files, err := renderSystemd(u, systemdFacts{version: 252})
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range files {
			golden(t, file, text)
		}
		lists, err := renderLaunchd(u)
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range lists {
			golden(t, file, text)
			var back daemon
			if _, err := plist.Unmarshal([]byte(text), &back); err != nil || back.Label != u.Name || back.UserName != u.User {
				t.Errorf("%s reads back as %+v, %v", file, back, err)
			}
		}
	}
}

// systemd itself finds nothing to say about a unit, old systemd or new.
func TestSystemdHasNothingToSay(t *testing.T) {
	for name, u := range everyUnit() {
		t.Run(name, func(t *testing.T) {
			u.Program = "/bin/true" // one that is there
			dir := t.TempDir()
			files, err := renderSystemd(u, systemdFacts{version: systemdVersion()})
			if err != nil {
				t.Fatal(err)
			}
			argv := []string{"verify", "--man=no"}
			for file, text := range files {
				path := filepath.Join(dir, file)
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				argv = append(argv, path)
			}
			out, err := exec.Command("systemd-analyze", argv...).CombinedOutput()
			if err != nil || len(out) > 0 { // unknown keys are a warning, and the exit code is 0
				t.Errorf("systemd-analyze: %v\n%s", err, out)
			}
		})
	}
}

var overall = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)

// worst is the exposure that a unit may have, on systemd's scale of 0 to 10.
const worst = 4.0

func TestUnitsAreHardened(t *testing.T) {
	for name, u := range everyUnit() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files, err := renderSystemd(u, systemdFacts{version: 252})
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, u.Name+".service")
			if err := os.WriteFile(path, []byte(files[u.Name+".service"]), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", path).CombinedOutput()
			found := overall.FindSubmatch(out)
			if found == nil {
				t.Fatalf("systemd-analyze: %v\n%s", err, out)
			}
			score, err := strconv.ParseFloat(string(found[1]), 64)
			if err != nil || score > worst {
				t.Errorf("%s has exposure %s, the limit is %.1f\n%s", u.Name, found[1], worst, out)
			}
			t.Logf("exposure %s", found[1])
		})
	}
}

// What would keep a model server from its accelerator, its compiler or its files is not in its unit.
// ProtectClock is on the list because it grants the clock's device, and a unit that grants one device
// refuses all others. Three more bring a fresh /proc: under it the memory that a container was given, and
// with it every promise of memory, reads as the whole computer's, and the boot that names a process is
// another than its owner sees.
func TestAcceleratorsAreReachable(t *testing.T) {
	for _, name := range []string{"client", "trainer", "task-worker"} {
		u := everyUnit()[name]
		files, err := renderSystemd(u, systemdFacts{version: 252})
		if err != nil {
			t.Fatal(err)
		}
		text := files[u.Name+".service"]
		for _, key := range []string{"PrivateDevices", "DevicePolicy", "DeviceAllow", "ProtectClock", "MemoryDenyWriteExecute", "PrivateUsers", "ProcSubset", "ProtectProc", "ProtectKernelTunables", "ProtectControlGroups", "PrivateTmp"} {
			if strings.Contains(text, key) {
				t.Errorf("%s has %s", name, key)
			}
		}
		for _, line := range []string{"ProtectHome=read-only\n", "SupplementaryGroups=render video\n", "LimitMEMLOCK=infinity\n", "KillMode=mixed\n", "Restart=always\n", "StartLimitIntervalSec=0\n"} {
			if !strings.Contains(text, line) {
				t.Errorf("%s lacks %q", name, line)
			}
		}
	}
}

// The pause between restarts grows where systemd knows how to.
func TestBackoffWhereSystemdKnowsIt(t *testing.T) {
	for version, want := range map[int]bool{239: false, 252: false, 254: true, 257: true} {
		files, err := renderSystemd(client.unit(testHome, testHome, fleetUser), systemdFacts{version: version})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(files[client.Name()+".service"], "RestartSteps="); got != want {
			t.Errorf("systemd %d: RestartSteps %v", version, got)
		}
	}
}

func TestPathsAreQuoted(t *testing.T) {
	who := fleetUser
	who.home = "/home/Fleet 100%"
	u := client.unit(who.home+"/.nightshift", who.home+"/.nightshift", who)
	files, err := renderSystemd(u, systemdFacts{version: 252, selinux: true})
	if err != nil {
		t.Fatal(err)
	}
	text := files[u.Name+".service"]
	for _, line := range []string{
		"WorkingDirectory=-/home/Fleet 100%%/.nightshift\n",
		"Environment=\"HOME=/home/Fleet 100%%\"\n",
		"ExecStart=/usr/bin/env \"/home/Fleet 100%%/.nightshift/app/current/interlock\" agent run --group my-model-k3x7qa --role client --log-file\n",
		"ReadWritePaths=-\"/home/Fleet 100%%/.nightshift\"\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}
