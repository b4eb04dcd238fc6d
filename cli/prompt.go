package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

const maxSecretLine = 4 << 10

// readSecret asks for a secret: without echo on a terminal, else the first line of the input.
func (a *app) readSecret(ctx context.Context, prompt string) (string, error) {
	if f, ok := a.In.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(a.Err, "%s: ", prompt)
		before, err := term.GetState(int(f.Fd()))
		if err != nil {
			return "", fmt.Errorf("prepare the terminal: %w", err)
		}
		line, err := await(ctx, func() (string, error) {
			b, err := term.ReadPassword(int(f.Fd()))
			return string(b), err
		})
		if ctx.Err() != nil { // the read is still waiting, with the echo off
			_ = term.Restore(int(f.Fd()), before)
		}
		fmt.Fprintln(a.Err)
		return strings.TrimSpace(line), err
	}
	line, err := await(ctx, a.readLine)
	return strings.TrimSpace(line), err
}

// confirm asks on a terminal; without one the command line itself is the consent.
func (a *app) confirm(ctx context.Context, question string) error {
	if !isTerminal(a.In) {
		return nil
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
