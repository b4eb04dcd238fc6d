package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"interlock.sh/cli/profile"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
)

// testApp is an app that writes to buffers, at a fixed time.
func testApp(now time.Time) (*app, *bytes.Buffer, *bytes.Buffer, *clock.Fake) {
	var out, errs bytes.Buffer
	clk := clock.NewFake(now)
	a := &app{Stdio: Stdio{In: strings.NewReader(""), Out: &out, Err: &errs}, clock: clk}
	a.env = Env{Env: profile.Env{Getenv: func(string) string { return "" }}}
	return a, &out, &errs, clk
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func TestTableAlignsWideAndHostileCells(t *testing.T) {
	a, out, _, _ := testApp(noon)
	a.table([]string{"NAME", "STATE"}, [][]string{{"車庫", "ready"}, {"a\x1b[31m\nb\u202e", ""}, {"plain", "full"}})
	want := "NAME     STATE\n" +
		"車庫     ready\n" +
		"a[31m b  —\n" +
		"plain    full\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

func TestJSONIsSafeOnATerminalAndTheSameDocument(t *testing.T) {
	a, out, _, _ := testApp(noon)
	in := map[string]string{"name": "a\x1b[31m\u009b1m\u202eb <&> 車庫"}
	if err := a.printJSON(in); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(out.String(), func(r rune) bool { return r != '\n' && hidden(r) }) {
		t.Errorf("control characters in %q", out)
	}
	if !strings.Contains(out.String(), "<&> 車庫") {
		t.Errorf("what is harmless was escaped: %q", out)
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["name"] != in["name"] {
		t.Errorf("read back %q, %v", back, err)
	}
}

func TestErrorsSayTheWayOutOnALineOfItsOwn(t *testing.T) {
	refusal := fault.New(fault.Invalid, "slots is 99; it goes from 1 to 64").WithHint("give fewer")
	tests := []struct {
		err  error
		want string
	}{
		{refusal, "interlock: slots is 99; it goes from 1 to 64\n        give fewer\n"},
		{fmt.Errorf("deploy: %w", refusal), "interlock: deploy: slots is 99; it goes from 1 to 64\n        give fewer\n"},
		{errors.New("plain\x1b[31m\nerror"), "interlock: plain[31m error\n"},
	}
	for _, tt := range tests {
		var b bytes.Buffer
		if printError(&b, tt.err); b.String() != tt.want {
			t.Errorf("got %q, want %q", b.String(), tt.want)
		}
	}
}

func TestAgesAndUnknownFigures(t *testing.T) {
	a, _, _, _ := testApp(noon)
	for ago, want := range map[time.Duration]string{
		-time.Second: "now", 5 * time.Second: "5s ago", 90 * time.Second: "1m ago", 30 * time.Hour: "30h ago", 80 * time.Hour: "3d ago",
	} {
		at := noon.Add(-ago)
		if got := a.ago(&at); got != want {
			t.Errorf("%s: %q, want %q", ago, got, want)
		}
	}
	negative := int64(-1)
	for what, got := range map[string]string{"time": a.ago(nil), "rate": rate(nil), "size": size(nil), "negative size": size(&negative), "count": count(0)} {
		if got != unknown {
			t.Errorf("%s: %q, want %q", what, got, unknown)
		}
	}
}

func TestPlainProgressSaysRateAndTimeLeft(t *testing.T) {
	a, _, errs, clk := testApp(noon)
	progress, finish := a.plainProgress(fleet.File{Name: "m.gguf", Size: 100e6})
	progress(40e6, 100e6) // an earlier try sent these: they are no speed
	clk.Advance(2 * time.Second)
	progress(50e6, 100e6)
	if errs.Len() > 0 {
		t.Errorf("a line after two seconds: %q", errs)
	}
	clk.Advance(3 * time.Second)
	progress(60e6, 100e6)
	finish(true)
	if want := "interlock: m.gguf: 60 MB of 100 MB (60%), 4.0 MB/s, 10.0 s left\n"; errs.String() != want {
		t.Errorf("got %q, want %q", errs, want)
	}
}
