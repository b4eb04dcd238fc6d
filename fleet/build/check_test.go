package build_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
)

func good() build.Target {
	return build.Target{Program: build.Interlock, Version: "1.4.0", OS: "linux", Arch: "amd64", Channels: map[string]int{build.Stable: 100}}
}

func TestCheckRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*build.Target)
		field string
		words string
	}{
		"unknown program":     {func(x *build.Target) { x.Program = "other" }, "program", "interlock, interlock-tui, nightshift"},
		"path in the program": {func(x *build.Target) { x.Program = "../interlock" }, "program", "is one of"},
		"unknown platform":    {func(x *build.Target) { x.OS = "plan9" }, "os", "plan9-amd64"},
		"path in the arch":    {func(x *build.Target) { x.Arch = "amd64/../.." }, "os", "not released for"},
		"universal program":   {func(x *build.Target) { x.OS, x.Arch = "darwin", build.Universal }, "os", "darwin-arm64"},
		"leading v":           {func(x *build.Target) { x.Version = "v1.4.0" }, "version", "write 1.4.0"},
		"two numbers":         {func(x *build.Target) { x.Version = "1.4" }, "version", "three numbers"},
		"path in the version": {func(x *build.Target) { x.Version = "1.4.0/.." }, "version", "no semantic version"},
		"build metadata":      {func(x *build.Target) { x.Version = "1.4.0+b1" }, "version", "without build metadata"},
		"endless version":     {func(x *build.Target) { x.Version = "1.4.0-" + strings.Repeat("a", 60) }, "version", "at most 64 bytes"},
		"no version":          {func(x *build.Target) { x.Version = "" }, "version", "no semantic version"},
		"minimum above":       {func(x *build.Target) { x.MinVersion = "1.4.0" }, "minVersion", "not below"},
		"minimum no version":  {func(x *build.Target) { x.MinVersion = "one" }, "minVersion", "no semantic version"},
		"unknown channel":     {func(x *build.Target) { x.Channels["beta"] = 1 }, "channels", "stable or canary"},
		"more than all":       {func(x *build.Target) { x.Channels[build.Stable] = 101 }, "channels.stable", "from 0 to 100"},
		"less than none":      {func(x *build.Target) { x.Channels[build.Canary] = -1 }, "channels.canary", "from 0 to 100"},
		"a reason of lines":   {func(x *build.Target) { x.Yanked = "a\nb" }, "yanked", "one line"},
		"a long reason":       {func(x *build.Target) { x.Yanked = strings.Repeat("a", 201) }, "yanked", "201"},
	} {
		t.Run(name, func(t *testing.T) {
			x := good()
			c.spoil(&x)
			err := x.Check()
			var e *fault.Error
			if !errors.As(err, &e) || e.Code != fault.Invalid || e.Field != c.field || !strings.Contains(err.Error(), c.words) {
				t.Fatalf("%+v: %v; want field %s and %q", e, err, c.field, c.words)
			}
		})
	}
}

func TestEveryPlatformOfEveryProgramPasses(t *testing.T) {
	for _, program := range build.Programs() {
		for _, platform := range build.Platforms(program) {
			x := good()
			x.Program = program
			x.OS, x.Arch, _ = strings.Cut(platform, "-")
			x.MinVersion, x.Yanked = "1.0.0-rc.1", "crashes on start"
			if err := x.Check(); err != nil {
				t.Error(program, platform, err)
			}
			text, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := build.Decode(x.Path(), text); err != nil || got.Path() != x.Path() {
				t.Error(got, err)
			}
		}
	}
}

// What stands under a path describes that path: signed bytes cannot be passed off as another program.
func TestDecodeRefuses(t *testing.T) {
	text := `{"program":"interlock","version":"1.4.0","os":"linux","arch":"amd64","channels":{"stable":100},"later":true}`
	if _, err := build.Decode("interlock/1.4.0/interlock-linux-amd64", []byte(text)); err != nil {
		t.Error("a field of a newer release stops an older program:", err)
	}
	for path, custom := range map[string]string{
		"interlock/1.4.1/interlock-linux-amd64": text,
		"interlock/1.4.0/interlock-linux-arm64": text,
		"../interlock-linux-amd64":              text,
		"interlock/1.4.0/interlock-linux-amd64": `null`,
		"":                                      ``,
	} {
		if got, err := build.Decode(path, []byte(custom)); err == nil {
			t.Errorf("%s %s: %+v", path, custom, got)
		}
	}
}

func TestCompare(t *testing.T) {
	order := []string{"", "1.0.0-rc.1", "1.0.0-rc.2", "1.0.0", "1.2.0", "1.10.0", "2.0.0-dev", "2.0.0"}
	for i, a := range order {
		for j, b := range order {
			if got := build.Compare(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("Compare(%q, %q) = %d", a, b, got)
			}
		}
	}
}
