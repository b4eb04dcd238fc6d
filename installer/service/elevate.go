package service

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"interlock.sh/fault"
)

// Elevation is one way of having root do one step.
type Elevation struct {
	Name string // sudo, pkexec, the system's prompt, or "" for root itself
	argv []string
}

// Desk is what decides how a person can be asked for consent.
type Desk struct {
	Terminal bool // a terminal is there to type a password on
	Display  bool // a desktop is there to show a prompt on
	Root     bool // nobody has to be asked
}

// Elevate picks the way: sudo on a terminal, pkexec or the system's own prompt on a desktop, and sudo
// without a question where it is set up so.
func (d Desk) Elevate() (Elevation, error) {
	sudo, sudoErr := exec.LookPath("sudo")
	pkexec, pkErr := exec.LookPath("pkexec")
	switch {
	case d.Root:
		return Elevation{}, nil
	case runtime.GOOS == "darwin" && d.Display && !d.Terminal:
		return Elevation{Name: "the system's prompt", argv: []string{"/usr/bin/osascript"}}, nil
	case sudoErr == nil && d.Terminal:
		return Elevation{Name: "sudo", argv: []string{sudo, "-p", "[sudo] password for %p, to change the services of this machine: ", "--"}}, nil
	case pkErr == nil && d.Display:
		return Elevation{Name: "pkexec", argv: []string{pkexec}}, nil
	case sudoErr == nil:
		return Elevation{Name: "sudo", argv: []string{sudo, "-n", "--"}}, nil
	}
	return Elevation{}, fault.New(fault.Unavailable, "neither sudo nor pkexec is on this machine, and its services are root's").
		WithHint("run the same as root, or add --no-service")
}

// answer is what the step of root says at its end, on standard output.
type answer struct {
	Done  bool         `json:"done"`
	Plan  Plan         `json:"plan"`
	Error *fault.Error `json:"error,omitempty"`
}

// WriteAnswer is the last act of the step of root.
func WriteAnswer(w io.Writer, p Plan, err error) error {
	a := answer{Done: err == nil, Plan: p}
	if err != nil {
		a.Error = fault.Of(err)
		if a.Error.Code == fault.Internal { // root's own words are for whoever asked for them
			a.Error = fault.New(fault.Internal, "%v", err)
		}
	}
	return json.NewEncoder(w).Encode(a)
}

// Ask has root do a request, by starting program with args once. It asks a person at most once; refused
// consent is fault.ScopeDenied, and then nothing has happened.
func (e Elevation) Ask(ctx context.Context, program string, args []string, q Request, talk io.Writer) error {
	text, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	argv := append(append(e.argv[:len(e.argv):len(e.argv)], program), args...)
	in := bytes.NewReader(text)
	if strings.HasSuffix(e.argv[0], "osascript") { // has no standard input to hand on
		words := append([]string{program}, append(args, "--request", base64.StdEncoding.EncodeToString(text))...)
		argv = append(e.argv[:1:1], "-e", "do shell script "+appleQuote(shellWords(words))+" with administrator privileges")
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, talk
	runErr := cmd.Run()
	var a answer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		if runErr == nil {
			runErr = fmt.Errorf("it said %q", out.String())
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fault.Wrap(runErr, fault.ScopeDenied, "%s did not let this run as root (%v): nothing was changed", e.Name, runErr).
			WithHint("do it again and consent, or add --no-service")
	}
	if a.Error != nil {
		return a.Error
	}
	return nil
}

// Command is a program that root is to run, with a person at the terminal; nil for the way of a desktop
// that hands no terminal on.
func (e Elevation) Command(ctx context.Context, program string, args []string) *exec.Cmd {
	if e.Direct() || strings.HasSuffix(e.argv[0], "osascript") {
		return nil
	}
	argv := append(append(e.argv[:len(e.argv):len(e.argv)], program), args...)
	return exec.CommandContext(ctx, argv[0], argv[1:]...)
}

// Direct reports whether this process is root itself and needs nobody's consent.
func (e Elevation) Direct() bool { return len(e.argv) == 0 }

// shellWords are words that sh reads as they are.
func shellWords(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(out, " ")
}

// appleQuote is a string of AppleScript.
func appleQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// Caller is the user that sudo or pkexec says it acts for; nil when root itself or the system's prompt
// started this process. environ is os.Environ's.
func Caller(environ []string) (*int, error) {
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if name != "SUDO_UID" && name != "PKEXEC_UID" {
			continue
		}
		uid, err := strconv.Atoi(value)
		if err != nil || uid < 0 {
			return nil, fault.New(fault.Invalid, "%s is %q, which is no user", name, value)
		}
		return &uid, nil
	}
	return nil, nil
}

// ThisDesk is the desk of this process. terminal says whether a person sits at one.
func ThisDesk(terminal bool) Desk {
	return Desk{
		Terminal: terminal, Root: os.Geteuid() == 0,
		Display: os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "" || runtime.GOOS == "darwin" && os.Getenv("SSH_CONNECTION") == "",
	}
}
