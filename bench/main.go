// Command bench takes the measurements of docs/PERFORMANCE.md on the real programs and prints them as a
// Markdown table. A missed bound is a row that says so; the exit code is 1 only when something is broken.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"interlock.sh/access"
	"interlock.sh/bench/measure"
	"interlock.sh/bench/report"
	"interlock.sh/bench/rig"
)

type options struct {
	root, bin, llama, model, dir, only, command string
	quick                                       bool
}

func main() {
	var o options
	flag.StringVar(&o.root, "root", "..", "the checkout")
	flag.StringVar(&o.bin, "bin", "../bin", "folder of the built programs")
	flag.StringVar(&o.llama, "llama-server", "", "llama-server to use")
	flag.StringVar(&o.model, "model", "", "GGUF file to serve")
	flag.StringVar(&o.dir, "dir", "", "empty folder on the disk to measure; everything is made in it")
	flag.StringVar(&o.only, "only", "", "some of "+strings.Join(names(), ",")+"; all when empty")
	flag.StringVar(&o.command, "command", "make bench", "what the table says how it was made")
	flag.BoolVar(&o.quick, "quick", false, "small sizes, to see that everything works; the figures mean little")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// stage is one measurement.
type stage struct {
	name string
	run  func(ctx context.Context, b *bed) ([]report.Row, error)
}

var stages = []stage{
	{"redraw", redraw}, {"claim", claim}, {"transfer", transfer}, {"idle", idle}, {"nightshift", nightshift}, {"update", update}, {"through", through},
}

// bed is what the measurements run on.
type bed struct {
	options
	plane   *rig.Plane
	machine *rig.Machine // nil before it is needed
}

// serving is the machine whose model is ready.
func (b *bed) serving(ctx context.Context) (*rig.Machine, error) {
	if b.machine != nil {
		return b.machine, nil
	}
	m, err := rig.StartMachine(ctx, b.plane, "bench", b.llama)
	if err != nil {
		return nil, err
	}
	b.machine = m
	return m, m.Serve(ctx, b.model)
}

func (b *bed) stop() {
	if b.machine != nil {
		b.machine.Stop()
	}
	b.plane.Stop()
}

func names() (all []string) {
	for _, s := range stages {
		all = append(all, s.name)
	}
	return all
}

func run(ctx context.Context, o options, out io.Writer) error {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return err
	}
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return err
	}
	header := report.Header{
		At: time.Now(), Command: o.command, Version: version(ctx, filepath.Join(bin, "interlock")),
		Server: fmt.Sprintf("Model server: %s, model %s, `-t 1`, %d slots", firstLine(ctx, o.llama, "--version"), filepath.Base(o.model), rig.Slots),
	}
	p, err := rig.StartPlane(ctx, bin, dir)
	if err != nil {
		return err
	}
	b := &bed{options: o, plane: p}
	defer b.stop()
	var rows []report.Row
	for _, s := range stages {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), s.name) {
			continue
		}
		fmt.Fprintln(os.Stderr, "bench:", s.name)
		some, err := s.run(ctx, b)
		if err != nil {
			return fmt.Errorf("measure %s: %w", s.name, err)
		}
		rows = append(rows, some...)
	}
	return report.Write(out, header, rows)
}

// pick is the size for a real measurement, or the small one.
func pick[T any](o options, real, quick T) T {
	if o.quick {
		return quick
	}
	return real
}

func redraw(ctx context.Context, b *bed) ([]report.Row, error) {
	return measure.Redraw(ctx, b.root)
}

func claim(ctx context.Context, b *bed) ([]report.Row, error) {
	return measure.Claim(ctx, b.plane, pick(b.options, 1000, 100))
}

func transfer(ctx context.Context, b *bed) ([]report.Row, error) {
	return measure.Transfer(ctx, b.plane, filepath.Dir(b.plane.Data), pick[int64](b.options, 500e6, 50e6), pick(b.options, 5, 2))
}

// idle watches two agents in the same minutes: one with a model, and one to which nothing is assigned,
// whose owner then clicks.
func idle(ctx context.Context, b *bed) ([]report.Row, error) {
	loaded, err := b.serving(ctx)
	if err != nil {
		return nil, err
	}
	enrolled, err := rig.StartMachine(ctx, b.plane, "idle", b.llama)
	if err != nil {
		return nil, err
	}
	defer enrolled.Stop()
	exporter, err := rig.StartExporter(ctx, b.plane)
	if err != nil {
		return nil, err
	}
	defer exporter.Stop()
	rows, err := measure.Idle(ctx, exporter, []measure.Agent{{What: "agent without a model", Pid: enrolled.Pid}, {What: "agent with a model loaded", Pid: loaded.Pid}},
		pick(b.options, 10*time.Minute, time.Minute))
	if err != nil {
		return nil, err
	}
	clicks, err := measure.Click(ctx, enrolled, pick(b.options, 200, 20))
	return append(rows, clicks...), err
}

func nightshift(ctx context.Context, b *bed) ([]report.Row, error) {
	m, err := b.serving(ctx)
	if err != nil {
		return nil, err
	}
	return measure.Nightshift(ctx, b.root, filepath.Dir(b.plane.Data), m, pick(b.options, time.Minute, 10*time.Second))
}

func update(ctx context.Context, b *bed) ([]report.Row, error) {
	m, err := b.serving(ctx)
	if err != nil {
		return nil, err
	}
	return measure.Update(ctx, b.plane, m, pick(b.options, 10, 2))
}

func through(ctx context.Context, b *bed) ([]report.Row, error) {
	m, err := b.serving(ctx)
	if err != nil {
		return nil, err
	}
	key, err := b.plane.Key(ctx, access.SDK)
	if err != nil {
		return nil, err
	}
	ours := rig.Door{URL: b.plane.Base, Key: key}
	one, err := measure.Through(ctx, ours, m.Direct, 1, pick(b.options, 15, 3))
	if err != nil {
		return nil, err
	}
	four, err := measure.Through(ctx, ours, m.Direct, rig.Slots, pick(b.options, 10, 2))
	return append(one, four...), err
}

// version is the program's name and version, without where it would connect.
func version(ctx context.Context, program string) string {
	line, _, _ := strings.Cut(firstLine(ctx, program, "version"), " [")
	return line
}

// firstLine is how a program calls itself.
func firstLine(ctx context.Context, program string, arg string) string {
	out, _ := exec.CommandContext(ctx, program, arg).CombinedOutput() // of an odd version flag the output will do
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
