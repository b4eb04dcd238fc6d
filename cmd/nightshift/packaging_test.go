package main

import (
	"os"
	"strings"
	"testing"

	"howett.net/plist"
)

func TestTheBundleHasNoDockIconAndStartsThisProgram(t *testing.T) {
	b, err := os.ReadFile("../../packaging/macos/Info.plist")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		CFBundleExecutable, CFBundleIdentifier, CFBundlePackageType string
		CFBundleShortVersionString, CFBundleVersion                 string
		LSUIElement                                                 bool
	}
	if _, err := plist.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if !got.LSUIElement || got.CFBundleExecutable != "nightshift" || got.CFBundleIdentifier != "sh.interlock.nightshift" || got.CFBundlePackageType != "APPL" ||
		got.CFBundleVersion != "@VERSION@" || got.CFBundleShortVersionString != "@VERSION@" {
		t.Errorf("%+v", got)
	}
}

func TestTheLauncherOpensTheWindow(t *testing.T) {
	b, err := os.ReadFile("../../packaging/linux/nightshift.desktop")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if lines[0] != "[Desktop Entry]" {
		t.Errorf("begins with %q", lines[0])
	}
	keys := map[string]string{}
	for _, l := range lines[1:] {
		k, v, ok := strings.Cut(l, "=")
		if _, twice := keys[k]; !ok || twice || v == "" {
			t.Errorf("line %q", l)
		}
		keys[k] = v
	}
	if keys["Type"] != "Application" || keys["Exec"] != "nightshift --page roles" || keys["Terminal"] != "false" || !strings.HasSuffix(keys["Categories"], ";") {
		t.Errorf("%v", keys)
	}
}
