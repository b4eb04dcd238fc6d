package cli

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"interlock.sh/internal/clock"
)

// examples are the command lines of a verb's help, and of all below it, as a shell would hand them over.
func examples(cmd *cobra.Command) [][]string {
	var out [][]string
	for line := range strings.Lines(cmd.Example) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, words(line))
		}
	}
	for _, sub := range cmd.Commands() {
		out = append(out, examples(sub)...)
	}
	return out
}

// words splits a line at spaces outside of quotes, and leaves redirections out.
func words(line string) []string {
	var out []string
	var word strings.Builder
	quote, begun := rune(0), false
	end := func() {
		if begun {
			out = append(out, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && c == ' ':
			end()
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	end()
	for i := 0; i < len(out); i++ {
		if file, is := strings.CutPrefix(strings.TrimLeft(out[i], "0123456789"), "<"); is {
			n := 1
			if file == "" {
				n = 2
			}
			out = append(out[:i], out[i+n:]...)
			i--
		}
	}
	return out
}

// Whatever a help text shows can be typed.
func TestEveryExampleOfAHelpTextIsAccepted(t *testing.T) {
	all := examples((&app{Stdio: Stdio{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, clock: clock.System}).root())
	if len(all) < 20 {
		t.Fatalf("found %d examples", len(all))
	}
	for _, args := range all {
		root := (&app{Stdio: Stdio{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, clock: clock.System}).root() // flags keep their values
		if args[0] != "interlock" {
			t.Errorf("%q is of another program", args)
			continue
		}
		cmd, rest, err := root.Find(args[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = errors.Join(cmd.ValidateArgs(cmd.Flags().Args()), cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups())
		}
		if err != nil || !cmd.Runnable() {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// What can be run here is run, since flags that parse may still mean nothing.
func TestEveryExampleOfHoursSetsThem(t *testing.T) {
	garage := keepers(t, "garage-aaaaaa")[0]
	n := 0
	for _, args := range examples((&app{clock: clock.System}).agentHoursCmd()) {
		before := garage.availability().String()
		code, out, errs := runCLI(t, args[1:]...)
		if code != ExitOK || len(args) > 3 && garage.availability().String() == before {
			t.Errorf("%q: exit code %d, %s\n%s%s", args, code, before, out, errs)
		}
		n++
	}
	if n < 5 {
		t.Errorf("found %d examples", n)
	}
}
