package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"interlock.sh/fault"
)

const maxSecretLine = 4 << 10

// readSecret asks for a secret: without echo on a terminal, else the first line of the input.
func (a *app) readSecret(ctx context.Context, prompt string) (string, error) {
	if f, ok := a.In.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return a.askSecret(ctx, f, prompt)
	}
	line, err := await(ctx, a.readLine)
	return strings.TrimSpace(line), err
}

// askSecret turns the echo off before it asks, so that a fast typist is not seen either.
func (a *app) askSecret(ctx context.Context, f *os.File, prompt string) (string, error) {
	secret, err := askOn(ctx, f, a.screen(f), prompt)
	return strings.TrimSpace(secret), err
}

// screen reads lines of a terminal. What was typed ahead of a question stays in it for the next one.
func (a *app) screen(f *os.File) *term.Terminal {
	return term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{f, a.Err}, "")
}

// askOn asks one question of several on the same screen.
func askOn(ctx context.Context, f *os.File, screen *term.Terminal, prompt string) (string, error) {
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return "", fmt.Errorf("prepare the terminal: %w", err)
	}
	defer func() { _ = term.Restore(int(f.Fd()), before) }() // a terminal that has gone needs nothing back
	line, err := await(ctx, func() (string, error) { return screen.ReadPassword(prompt + ": ") })
	if errors.Is(err, io.EOF) { // Ctrl-C and Ctrl-D, which a raw terminal hands on as they are
		return "", errors.New("interrupted")
	}
	return line, err
}

// yesFlag is the consent of a verb that cannot be undone, given beforehand.
func yesFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("yes", false, "do not ask; needed where there is no terminal to ask on")
}

// confirm asks on a terminal, unless yes was given. Without a terminal nobody can be asked, and a script
// that did not mean it must not find out afterwards.
func (a *app) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(a.In) {
		return fault.New(fault.Invalid, "%s There is no terminal to ask on: nothing was changed", question).WithHint("add --yes if that is meant")
	}
	fmt.Fprintf(a.Err, "interlock: %s [y/N] ", clean(question))
	line, err := await(ctx, a.readLine)
	if err != nil {
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
		return nil
	}
	a.note("nothing was changed")
	return &exit{ExitError}
}

func (a *app) readLine() (string, error) {
	line, err := bufio.NewReader(io.LimitReader(a.In, maxSecretLine)).ReadString('\n')
	if err != nil && err != io.EOF { //nolint:errorlint // bare, as bufio says
		return "", fmt.Errorf("read the input: %w", err)
	}
	return line, nil
}

// await runs a blocking read of the terminal so that an interrupt ends the wait; the reader itself
// cannot be woken and ends with the process.
func await(ctx context.Context, read func() (string, error)) (string, error) {
	type answer struct {
		line string
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		line, err := read()
		got <- answer{line, err}
	}()
	select {
	case r := <-got:
		return r.line, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
