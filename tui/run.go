package tui

import (
	"context"
	"errors"
	"fmt"
	"io"

	tea "github.com/charmbracelet/bubbletea"
	"golang.org/x/sync/errgroup"

	"interlock.sh/client"
)

// Run shows the dashboard on a terminal until its user leaves or ctx ends.
func Run(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	g, ctx := errgroup.WithContext(ctx)
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	o.Renderer.HasDarkBackground() // asks the terminal, which must be done before it is read from
	p := tea.NewProgram(New(ctx, o), tea.WithContext(ctx), tea.WithAltScreen(), tea.WithInput(in), tea.WithOutput(out),
		tea.WithoutSignalHandler()) // signals end ctx
	g.Go(func() error {
		followHints(ctx, o.Backend, p.Send)
		return nil
	})
	g.Go(func() error {
		defer leave()
		if _, err := p.Run(); err != nil && !errors.Is(err, tea.ErrProgramKilled) {
			return fmt.Errorf("run the dashboard: %w", err)
		}
		return nil
	})
	return g.Wait()
}

// followHints sends what the project's event stream hints at. A server that refuses the stream is no
// fault: the refresh reads everything all the same.
func followHints(ctx context.Context, b Backend, send func(tea.Msg)) {
	_ = b.Follow(ctx, client.ProjectEventsPath, "", func(e client.Event) error {
		send(hintOf(e))
		return nil
	})
}
