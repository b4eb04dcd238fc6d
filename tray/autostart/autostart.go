// Package autostart has the desktop start the app at login: a file in the user's XDG autostart folder on
// Linux, a LaunchAgent on macOS. It writes and removes that one file; it starts nothing now.
package autostart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
)

// name is what the file is called on both systems.
const name = "sh.interlock.nightshift"

// Desktop is the user's place in a desktop.
type Desktop struct {
	OS        string // as runtime.GOOS
	UserHome  string
	ConfigDir string // $XDG_CONFIG_HOME, "" for ~/.config
}

// Here is the desktop of this user.
func Here(goos string) (Desktop, error) {
	h, err := os.UserHomeDir()
	if err != nil {
		return Desktop{}, fault.Wrap(err, fault.Invalid, "the home folder of this user is not known").WithHint("set HOME")
	}
	return Desktop{OS: goos, UserHome: h, ConfigDir: os.Getenv("XDG_CONFIG_HOME")}, nil
}

// Path is the file.
func (d Desktop) Path() string {
	if d.OS == "darwin" {
		return filepath.Join(d.UserHome, "Library", "LaunchAgents", name+".plist")
	}
	config := d.ConfigDir
	if !filepath.IsAbs(config) { // as the specification says: anything else is to be ignored
		config = filepath.Join(d.UserHome, ".config")
	}
	return filepath.Join(config, "autostart", name+".desktop")
}

// Install writes the file for a program, which must be an absolute path, with the home it shall show ("" for
// the default). Writing it again is harmless.
func (d Desktop) Install(program, home string) error {
	for i, p := range []string{program, home} {
		if (i == 0 || p != "") && (!filepath.IsAbs(p) || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f })) {
			return fault.New(fault.Invalid, "%q is no absolute path without control characters", p).WithHint("move the program to a plain path and install again")
		}
	}
	text := desktopEntry(program, home)
	if d.OS == "darwin" {
		text = launchAgent(program, home)
	}
	path := d.Path()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the autostart folder: %w", err)
	}
	return atomicfile.Write(path, []byte(text), 0o644)
}

// Remove deletes the file; one that is not there is fine.
func (d Desktop) Remove() error {
	if err := os.Remove(d.Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the autostart file: %w", err)
	}
	return nil
}

// envHome is enrollment.EnvHome, which this package would import for nothing else.
const envHome = "NIGHTSHIFT_HOME"

func desktopEntry(program, home string) string {
	run := execWord(program)
	if home != "" {
		run = "env " + execWord(envHome+"="+home) + " " + run
	}
	return "[Desktop Entry]\nType=Application\nName=Nightshift\n" +
		"Comment=When this machine may work for its model groups\n" +
		"Exec=" + run + "\nIcon=" + name + "\nTerminal=false\nCategories=Utility;\n" +
		"X-GNOME-Autostart-enabled=true\nX-GNOME-Autostart-Delay=2\n"
}

// execWord quotes an argument for Exec: inside quotes four characters are escaped, then the string rule of
// desktop files doubles each backslash, and a percent sign would be a field code.
func execWord(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`).Replace(s)
	s = strings.ReplaceAll(s, `\`, `\\`)
	return `"` + strings.ReplaceAll(s, "%", "%%") + `"`
}

func launchAgent(program, home string) string {
	env := ""
	if home != "" {
		env = "  <key>EnvironmentVariables</key>\n  <dict>\n    <key>" + envHome + "</key>\n    <string>" + xmlText(home) + "</string>\n  </dict>\n"
	}
	return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>` + name + `</string>
  <key>ProgramArguments</key>
  <array>
    <string>` + xmlText(program) + `</string>
  </array>
` + env + `  <key>RunAtLoad</key>
  <true/>
  <key>LimitLoadToSessionType</key>
  <string>Aqua</string>
  <key>ProcessType</key>
  <string>Interactive</string>
</dict>
</plist>
`
}

func xmlText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
