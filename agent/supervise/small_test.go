package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/internal/clock"
)

func TestEnvironmentIsScrubbed(t *testing.T) {
	got := scrub([]string{
		"PATH=/bin", "HOME=/h", "LC_ALL=C", "CUDA_VISIBLE_DEVICES=0", "GGML_X=1", "LLAMA_CACHE=/c", "HIP_Y=1", "TMPDIR=/t",
		"INTERLOCK_MODEL_KEY=s", "INTERLOCK_URL=u", "LLAMA_API_KEY=s", "LLAMA_ARG_HOST=0.0.0.0", "AWS_SECRET_ACCESS_KEY=s",
		"HF_TOKEN=s", "NVIDIA_API_KEY=s", "SSH_AUTH_SOCK=/s", "LD_PRELOAD=/evil", "no equals sign",
	})
	want := []string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "CUDA_VISIBLE_DEVICES=0", "GGML_X=1", "LLAMA_CACHE=/c", "HIP_Y=1", "TMPDIR=/t"}
	if !slices.Equal(got, want) {
		t.Fatalf("kept %q, want %q", got, want)
	}
	if scrub([]string{"INTERLOCK_URL=u"}) == nil {
		t.Fatal("nothing kept is nil: the child would inherit everything")
	}
}

func TestEndpointsDoNotShowTheirKey(t *testing.T) {
	at := Endpoint{Port: 1, Key: "sesame"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, at); text != "127.0.0.1:1" {
			t.Errorf("%s shows %s", verb, text)
		}
	}
}

func TestIdentityIsThatOfOneProcess(t *testing.T) {
	id, err := identify(os.Getpid())
	if err != nil || !id.running() {
		t.Fatalf("%+v, %v", id, err)
	}
	for _, other := range []Identity{{PID: id.PID, Start: id.Start + "0"}, {PID: os.Getppid(), Start: id.Start}, {PID: id.PID}, {PID: 1, Start: id.Start}, {}} {
		if other.running() {
			t.Errorf("%+v is taken for running", other)
		}
	}
}

func TestTableSurvivesAndRefusesWhatItCannotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "children.json")
	table, err := openTable(path)
	if err != nil {
		t.Fatal(err)
	}
	a := record{Name: "a", Identity: Identity{PID: 7, Start: "s"}, Port: 1, Leash: LeashPipe}
	b := record{Name: "b", Identity: Identity{PID: 8, Start: "s"}, Port: 2, Leash: LeashPipe}
	for _, err := range []error{table.put(b), table.put(a), table.remove(b.Identity)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	again, err := openTable(path)
	if err != nil || !slices.Equal(again.all(), []record{a}) {
		t.Fatalf("read back %+v, %v", again, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openTable(path); err == nil {
		t.Fatal("half a table was read")
	}
}

// A folder that was copied on the same machine names the children of the original's agent.
func TestCopiedTableNamesNoChildOfOurs(t *testing.T) {
	path, copied := filepath.Join(t.TempDir(), "children.json"), filepath.Join(t.TempDir(), "children.json")
	table, err := openTable(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.put(record{Name: "tiny", Identity: Identity{PID: 7, Start: "1"}}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if table, err = openTable(copied); err != nil || len(table.all()) != 0 {
		t.Errorf("the copy has %v, %v; want no children", table, err)
	}
}

func TestOutputKeepsTheLastLinesAndTurnsFilesOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	fake := clock.NewFake(time.Unix(100, 0))
	o := newOutput(path, 4096, fake)
	o.begin("x")
	if !o.wroteAt().IsZero() {
		t.Error("a new process has written")
	}
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "line %d\r\n", i)
	}
	text.WriteString(strings.Repeat("x", 3*lineMax) + "\nrest")
	o.copyFrom(strings.NewReader(text.String()))
	got := o.tail(4)
	want := []string{"line 998", "line 999", strings.Repeat("x", lineMax), "rest"}
	if !slices.Equal(got, want) {
		t.Fatalf("tail %.40q", got)
	}
	if n := len(o.tail(1000)); n != tailLines {
		t.Errorf("%d lines kept, want %d", n, tailLines)
	}
	if !o.wroteAt().Equal(fake.Now()) {
		t.Errorf("wrote at %v", o.wroteAt())
	}
	o.begin("y")
	if len(o.tail(10)) != 0 {
		t.Error("lines of the old process stay")
	}
}

func TestOutputWithoutADisk(t *testing.T) {
	o := newOutput(filepath.Join(t.TempDir(), "missing", "log"), 4096, clock.System)
	o.copyFrom(strings.NewReader("still here\n"))
	if got := o.tail(1); !slices.Equal(got, []string{"still here"}) {
		t.Fatalf("tail %q", got)
	}
}

func TestConfigurationsThatCannotWork(t *testing.T) {
	if _, err := New(Config{Dir: t.TempDir(), Leash: LeashPipe}); err == nil {
		t.Error("LeashPipe without a shim was accepted")
	}
	s := newSupervisor(t, SystemLeash, quick)
	add(t, s, &fakeDriver{})
	if _, err := s.Add("tiny", &fakeDriver{}); err == nil {
		t.Error("two children of one name were accepted")
	}
	if err := s.Remove(t.Context(), "tiny"); err != nil {
		t.Fatal(err)
	}
	add(t, s, &fakeDriver{})
}
