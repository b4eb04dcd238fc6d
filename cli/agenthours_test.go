package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/ownersocket"
)

// keeper is an agent that keeps hours and does nothing else. old is one from before there were any.
type keeper struct {
	group    string
	old      bool
	warnings []string

	mu    sync.Mutex
	wish  localapi.Wish
	asked []string
}

var wednesday = time.Date(2026, 6, 10, 13, 0, 0, 0, time.FixedZone("CEST", 2*3600))

func (k *keeper) Status(context.Context) localapi.Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	st := localapi.Status{Group: k.group, GroupName: strings.TrimSuffix(k.group, "-aaaaaa"), Role: fleet.RoleClient, Version: "1.0", Words: "ready"}
	st.Report.Warnings = k.warnings
	if k.old {
		return st
	}
	v := k.wish.At(wednesday, k.wish.Hold, schedule.Facts{})
	st.Wish, st.Hours = k.wish, fleet.Hours{Mode: string(k.wish.Mode), Open: v.Open, Why: v.Why, Next: v.Next}
	if !v.Open {
		st.Words = "paused (by owner " + v.Why + ")"
	}
	return st
}

func (k *keeper) note(format string, args ...any) {
	k.asked = append(k.asked, fmt.Sprintf(format, args...))
}

func (k *keeper) SetOwner(m fleet.Mode) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note("%s", m)
	return nil
}

func (k *keeper) Pause(d time.Duration) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note("pause %v", d)
	until := wednesday.Add(d)
	k.wish.Hold = &schedule.Hold{Until: &until}
	return nil
}

func (k *keeper) SetAvailability(_ context.Context, a schedule.Availability) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := a.Check(); err != nil {
		return err
	}
	k.wish.Availability = a
	return nil
}

func (k *keeper) Doctor(context.Context, bool) []localapi.Check { return nil }
func (k *keeper) Logs(string, int) (localapi.Logs, error)       { return localapi.Logs{}, nil }
func (k *keeper) Restart(time.Duration) error                   { return nil }
func (k *keeper) availability() schedule.Availability {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wish.Availability
}

// keepers puts an agent behind the door of each group, in a home of the test's.
func keepers(t *testing.T, groups ...string) []*keeper {
	t.Helper()
	home := enrollment.Home(filepath.Join(t.TempDir(), "ns"))
	t.Setenv(enrollment.EnvHome, string(home))
	var out []*keeper
	for _, g := range groups {
		enroll(t, home, g)
		k := &keeper{group: g, wish: localapi.Wish{Availability: schedule.Availability{Mode: schedule.Always}}}
		socket, err := home.Socket(g, fleet.RoleClient)
		if err != nil {
			t.Fatal(err)
		}
		serveAt(t, socket, localapi.Handler(k))
		out = append(out, k)
	}
	return out
}

// serveAt opens a door until the test ends.
func serveAt(t *testing.T, socket string, h http.Handler) {
	t.Helper()
	l, err := ownersocket.Listen(socket)
	if err != nil {
		t.Error(err)
		return
	}
	srv, ended := &http.Server{Handler: h}, make(chan struct{})
	go func() { defer close(ended); _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-ended })
}

// enroll writes what an enrollment leaves on disk.
func enroll(t *testing.T, home enrollment.Home, group string) {
	t.Helper()
	dir := home.Role(group, fleet.RoleClient)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSuffix(group, "-aaaaaa")
	for path, text := range map[string]string{
		filepath.Join(home.Group(group), "group.json"): fmt.Sprintf(`{"schema":1,"modelId":%q,"name":%q,"project":"p","origin":"https://fleet.example"}`, group, name),
		filepath.Join(dir, "role.json"):                `{"schema":1,"role":"client","runtime":"llama.cpp","machine":"m","machineName":"mini","hostId":"h"}`,
		filepath.Join(dir, "worker.env"):               "INTERLOCK_MACHINE_CREDENTIAL=none\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func runCLI(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), args, Stdio{In: strings.NewReader(""), Out: &o, Err: &e}, Env{Program: "interlock"})
	return code, o.String(), e.String()
}

func TestHoursAreSetAsTheyAreSaid(t *testing.T) {
	garage := keepers(t, "garage-aaaaaa")[0]
	limit := []schedule.Bandwidth{{Span: schedule.Span{Start: "09:00", End: "17:00"}, BytesPerSecond: 1 << 20}, {Span: schedule.Span{Start: "17:00", End: "18:00", Days: []string{"mon"}}}}
	evening := []schedule.Span{{Start: "20:00", End: "08:00", Days: []string{"mon", "tue"}}}
	for _, c := range []struct {
		args string
		want schedule.Availability
	}{
		{"night --on-mains", schedule.Availability{Mode: schedule.Night, OnMains: true}},
		{"window --start 20:00 --end 08:00 --days mon,tue", schedule.Availability{Mode: schedule.Window, Windows: evening, OnMains: true}},
		{"--idle-minutes 10", schedule.Availability{Mode: schedule.Window, Windows: evening, OnMains: true, IdleMinutes: 10}},
		{"--on-mains=false --bandwidth 09:00-17:00=1MiB --bandwidth mon_17:00-18:00=0", schedule.Availability{Mode: schedule.Window, Windows: evening, IdleMinutes: 10, Bandwidth: limit}},
		{"always --idle-minutes 0", schedule.Availability{Mode: schedule.Always, Windows: evening, Bandwidth: limit}},
		{"--bandwidth none", schedule.Availability{Mode: schedule.Always, Windows: evening}},
		{"window", schedule.Availability{Mode: schedule.Window, Windows: evening}},
		{"--span fri-sun_00:00-24:00 --span mon_20:00-21:00", schedule.Availability{Mode: schedule.Window, Windows: []schedule.Span{
			{Start: "00:00", End: "24:00", Days: []string{"fri", "sat", "sun"}}, {Start: "20:00", End: "21:00", Days: []string{"mon"}},
		}}},
	} {
		args := []string{"agent", "hours"}
		for _, arg := range strings.Fields(c.args) {
			args = append(args, strings.ReplaceAll(arg, "_", " "))
		}
		code, out, errs := runCLI(t, args...)
		if d := cmp.Diff(c.want, garage.availability()); code != ExitOK || d != "" {
			t.Errorf("%s: %d %s%s%s", c.args, code, out, errs, d)
		}
	}
}

func TestHoursAreShown(t *testing.T) {
	both := keepers(t, "garage-aaaaaa", "studio-aaaaaa", "attic-aaaaaa")
	both[1].wish.Mode, both[1].wish.OnMains = schedule.Night, true
	both[2].old = true
	code, out, errs := runCLI(t, "agent", "hours")
	want := []string{
		"GROUP/ROLE     MAY WORK                          NOW                             NEXT",
		"attic/client   —                                 ready                           —",
		"garage/client  always                            ready                           —",
		"studio/client  22:00–07:00, on mains power only  paused (by owner until 22:00)  starts Wed 22:00",
	}
	for _, line := range want {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(line), " ")) {
			t.Errorf("%q is not in\n%s", line, out)
		}
	}
	if code != ExitOK || !strings.Contains(errs, "attic/client: the agent that runs is older than hours") {
		t.Errorf("%d %s", code, errs)
	}
	_, out, _ = runCLI(t, "agent", "hours", "--group", "studio", "--json")
	var got struct{ Hours []agentHours }
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Hours) != 1 || got.Hours[0].Wish.Mode != schedule.Night || got.Hours[0].Hours.Next == nil {
		t.Errorf("%s, %v", out, err)
	}
}

func TestEveryAgentOrTheOneThatIsMeant(t *testing.T) {
	all := keepers(t, "garage-aaaaaa", "studio-aaaaaa", "attic-aaaaaa")
	all[2].old = true
	code, _, errs := runCLI(t, "agent", "hours", "night", "--all")
	if code != ExitError || !strings.Contains(errs, "group attic, role client: the agent that runs is of version 1.0, which keeps no hours (let a newer one take its place: interlock agent start)") {
		t.Errorf("an old agent among them: %d %s", code, errs)
	}
	for _, k := range all[:2] {
		if k.availability().Mode != schedule.Night {
			t.Errorf("%s was not told", k.group)
		}
	}
	if code, out, errs := runCLI(t, "agent", "pause", "--for", "1h", "--group", "garage"); code != ExitOK || !strings.Contains(out, "group garage, role client: paused (by owner until ") {
		t.Errorf("a pause: %d %s%s", code, out, errs)
	}
	if len(all[0].asked) != 1 || all[0].asked[0] != "pause 1h0m0s" || len(all[1].asked) != 0 {
		t.Errorf("asked: %v, %v", all[0].asked, all[1].asked)
	}
	if code, _, errs := runCLI(t, "agent", "pause", "--for", "1h", "--group", "attic"); code == ExitOK || len(all[2].asked) != 0 || !strings.Contains(errs, "keeps no hours") {
		t.Errorf("an old agent would pause for good: %d %s", code, errs)
	}
	if code, _, errs := runCLI(t, "agent", "pause", "--group", "attic"); code != ExitOK {
		t.Errorf("an old agent can be paused: %d %s", code, errs)
	}
}

func TestHoursThatMeanNothingAreRefused(t *testing.T) {
	garage := keepers(t, "garage-aaaaaa")[0]
	for args, words := range map[string]string{
		"agent hours dusk":                                "none of always, night, window, paused",
		"agent hours window":                              "mode window names no window",
		"agent hours window --start 22:00":                "a window has --start and --end",
		"agent hours --start 22:00 --end 22:00":           "has 0 minutes",
		"agent hours --start 22:00 --end 7":               "no time of day",
		"agent hours night --start 22:00 --end 07:00":     "windows belong to",
		"agent hours --start 1:00 --end 2:00 --days moon": `"moon" is no day`,
		"agent hours --bandwidth 09:00-17:00":             "names no limit",
		"agent hours --bandwidth 09:00-17:00=fast":        "fast is no number of bytes",
		"agent hours --idle-minutes -1":                   "idleMinutes is -1",
		"agent hours --all --group garage night":          "leave --group and --role out",
		"agent pause --for 1s":                            "a minute or more",
		"agent pause --for -1h":                           "a minute or more",
		"agent pause --for 200h":                          "from 1 to 10080 minutes",
	} {
		if code, _, errs := runCLI(t, strings.Fields(args)...); code == ExitOK || !strings.Contains(errs, words) {
			t.Errorf("%s: %d %s", args, code, errs)
		}
	}
	if d := cmp.Diff(schedule.Availability{Mode: schedule.Always}, garage.availability()); d != "" || len(garage.asked) != 0 {
		t.Errorf("something was set: %s %v", d, garage.asked)
	}
}
