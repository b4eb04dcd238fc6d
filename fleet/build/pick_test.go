package build_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"interlock.sh/fleet/build"
)

func released(version string, change ...func(*build.Target)) build.Target {
	t := good()
	t.Version = version
	for _, c := range change {
		c(&t)
	}
	return t
}

func share(channel string, percent int) func(*build.Target) {
	return func(t *build.Target) { t.Channels = map[string]int{channel: percent} }
}

func linux(current string, change ...func(*build.Want)) build.Want {
	w := build.Want{Program: build.Interlock, OS: "linux", Arch: "amd64", Current: current, Machine: "mach_1"}
	for _, c := range change {
		c(&w)
	}
	return w
}

func TestPick(t *testing.T) {
	yanked := func(t *build.Target) { t.Yanked = "eats files" }
	from := func(v string) func(*build.Target) { return func(t *build.Target) { t.MinVersion = v } }
	failed := func(w *build.Want) { w.Quarantined = map[string]string{"2.0.0": "no heartbeat"} }
	asks := func(v string) func(*build.Want) { return func(w *build.Want) { w.Version = v } }
	on := func(c string) func(*build.Want) { return func(w *build.Want) { w.Channel = c } }
	other := func(t *build.Target) { t.OS = "darwin" }
	for name, c := range map[string]struct {
		targets []build.Target
		want    build.Want
		version string // "" is none
		why     string
	}{
		"the highest":                        {[]build.Target{released("1.9.0"), released("1.10.0"), released("1.2.0")}, linux("1.0.0"), "1.10.0", ""},
		"a first one":                        {[]build.Target{released("1.0.0")}, linux(""), "1.0.0", ""},
		"an unversioned build":               {[]build.Target{released("1.0.0")}, linux("devel"), "1.0.0", ""},
		"never down":                         {[]build.Target{released("1.0.0"), released("1.1.0")}, linux("1.2.0"), "", "1.2.0 is the newest"},
		"never the same":                     {[]build.Target{released("1.2.0")}, linux("1.2.0"), "", "is the newest"},
		"down when asked":                    {[]build.Target{released("1.0.0"), released("1.1.0")}, linux("1.2.0", asks("1.0.0")), "1.0.0", ""},
		"asked for nothing":                  {[]build.Target{released("1.0.0")}, linux("1.2.0", asks("3.0.0")), "", "no version 3.0.0"},
		"nothing for it":                     {[]build.Target{released("1.0.0", other)}, linux("0.1.0"), "", "no release of interlock for linux-amd64"},
		"withdrawn":                          {[]build.Target{released("2.0.0", yanked), released("1.1.0")}, linux("1.0.0"), "1.1.0", "2.0.0 was withdrawn: eats files"},
		"withdrawn, asked":                   {[]build.Target{released("2.0.0", yanked)}, linux("1.0.0", asks("2.0.0")), "", "withdrawn: eats files"},
		"failed here":                        {[]build.Target{released("2.0.0"), released("1.1.0")}, linux("1.0.0", failed), "1.1.0", "2.0.0 failed on this machine: no heartbeat"},
		"a step between":                     {[]build.Target{released("2.0.0", from("1.5.0")), released("1.5.0")}, linux("1.0.0"), "1.5.0", "2.0.0 can be reached from 1.5.0 on; this machine has 1.0.0"},
		"the step taken":                     {[]build.Target{released("2.0.0", from("1.5.0")), released("1.5.0")}, linux("1.5.0"), "2.0.0", ""},
		"held back":                          {[]build.Target{released("2.0.0", share(build.Stable, 0))}, linux("1.0.0"), "", "2.0.0 is not for this machine yet"},
		"held back, asked":                   {[]build.Target{released("2.0.0", share(build.Stable, 0))}, linux("1.0.0", asks("2.0.0")), "2.0.0", ""},
		"a canary by volunteer":              {[]build.Target{released("2.0.0", share(build.Canary, 1))}, linux("1.0.0", on(build.Canary)), "2.0.0", ""},
		"a canary of none":                   {[]build.Target{released("2.0.0", share(build.Canary, 0))}, linux("1.0.0", on(build.Canary)), "", "not for this machine yet"},
		"a canary of all":                    {[]build.Target{released("2.0.0", share(build.Canary, 100))}, linux("1.0.0"), "2.0.0", ""},
		"a canary, stable only":              {[]build.Target{released("2.0.0", share(build.Canary, 100))}, linux("1.0.0", on(build.Stable)), "", "not for this machine yet"},
		"the canary's machine gets releases": {[]build.Target{released("2.0.0")}, linux("1.0.0", on(build.Canary)), "2.0.0", ""},
		"an old refusal is no news":          {[]build.Target{released("1.1.0", yanked), released("1.2.0")}, linux("1.0.0"), "1.2.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, why, ok := build.Pick(c.targets, c.want)
			if got.Version != c.version || ok != (c.version != "") || (c.why == "") != (why == "") || !strings.Contains(why, c.why) {
				t.Fatalf("%q %q %v; want %q %q", got.Version, why, ok, c.version, c.why)
			}
		})
	}
}

func versions(t *rapid.T, label string) string {
	n := rapid.IntRange(0, 3)
	v := fmt.Sprintf("%d.%d.%d", n.Draw(t, label), n.Draw(t, label), n.Draw(t, label))
	if rapid.Bool().Draw(t, label) {
		v += fmt.Sprintf("-rc.%d", n.Draw(t, label))
	}
	return v
}

// A growing percentage only adds machines, and a machine's lot is its own.
func TestTheLotIsStableAndMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		machine, version := rapid.String().Draw(t, "machine"), versions(t, "version")
		low := rapid.IntRange(0, 100).Draw(t, "low")
		high := rapid.IntRange(low, 100).Draw(t, "high")
		in := func(percent int) bool {
			_, _, ok := build.Pick([]build.Target{released(version, share(build.Canary, percent))}, build.Want{
				Program: build.Interlock, OS: "linux", Arch: "amd64", Machine: machine,
			})
			return ok
		}
		if in(low) && !in(high) {
			t.Fatalf("%q is in the canary of %s at %d and out at %d", machine, version, low, high)
		}
		if in(0) || !in(100) {
			t.Fatal("none and all are not what they say")
		}
	})
}

// The lot is the same in every version of this program: a canary goes on where it stands.
func TestTheLotStays(t *testing.T) {
	for _, c := range []struct {
		machine, version string
		bucket           int
	}{{"mach_1", "1.0.0", 73}, {"mach_1", "1.0.1", 90}, {"", "1.0.0", 6}} {
		if got := build.Bucket(c.machine, c.version); got != c.bucket {
			t.Errorf("%q %s: %d, want %d", c.machine, c.version, got, c.bucket)
		}
	}
}

// The percentage is about what it says, and each version draws anew.
func TestTheLotIsFair(t *testing.T) {
	const machines = 5000
	in, both := 0, 0
	for i := range machines {
		id := fmt.Sprintf("mach_%d", i)
		a, b := build.Bucket(id, "1.0.0") < 10, build.Bucket(id, "1.1.0") < 10
		if a {
			in++
		}
		if a && b {
			both++
		}
	}
	if in < machines*8/100 || in > machines*12/100 {
		t.Errorf("%d of %d machines are in ten percent", in, machines)
	}
	if both > machines*2/100 {
		t.Errorf("%d of %d machines are first twice", both, machines)
	}
}

// Whatever is offered: never down, never another platform, never withdrawn, never what failed here.
func TestPickNeverHarms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := linux(versions(t, "current"), func(w *build.Want) {
			w.Channel = rapid.SampledFrom([]string{"", build.Stable, build.Canary}).Draw(t, "channel")
			w.Quarantined = map[string]string{versions(t, "failed"): "x"}
		})
		var targets []build.Target
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			targets = append(targets, released(versions(t, "v"), func(x *build.Target) {
				x.OS = rapid.SampledFrom([]string{"linux", "darwin"}).Draw(t, "os")
				x.Yanked = rapid.SampledFrom([]string{"", "", "bad"}).Draw(t, "yanked")
				x.MinVersion = rapid.SampledFrom([]string{"", "1.0.0"}).Draw(t, "min")
				x.Channels[build.Canary] = rapid.IntRange(0, 100).Draw(t, "canary")
				x.Channels[build.Stable] = rapid.IntRange(0, 100).Draw(t, "stable")
			}))
		}
		got, why, ok := build.Pick(targets, want)
		if !ok {
			if why == "" {
				t.Fatal("nothing, and no reason")
			}
			return
		}
		_, failed := want.Quarantined[got.Version]
		if build.Compare(got.Version, want.Current) <= 0 || got.OS != "linux" || got.Yanked != "" || failed ||
			got.MinVersion != "" && build.Compare(want.Current, got.MinVersion) < 0 {
			t.Fatalf("%+v for %+v", got, want)
		}
	})
}
