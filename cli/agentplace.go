package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"interlock.sh/agent/enrollment"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/updater"
)

// place is where a service finds its program.
type place struct {
	app   string      // name of the app folder
	steps [][2]string // what has to be done first
	do    []func() error
}

func (p place) prepare() error {
	for _, step := range p.do {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// findPlace is the app folder that an enrollment belongs to by the root of trust of its control plane; when
// that cannot be told, the one that this program stands in. A program from elsewhere, such as a package's, is
// copied: updates need a folder that the user may write to.
func findPlace(ctx context.Context, e enrollment.Enrollment) (place, error) {
	home := e.Home
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return place{}, fmt.Errorf("find this program: %w", err)
	}
	real, err := filepath.EvalSymlinks(string(home))
	if err != nil {
		return place{}, fmt.Errorf("find the home folder: %w", err)
	}
	p := place{app: build.AppFolder}
	if rel, err := filepath.Rel(real, program); err == nil && filepath.IsLocal(rel) {
		if name, _, deep := strings.Cut(rel, string(filepath.Separator)); deep {
			if _, ok := build.ReadApp(name); ok {
				p.app = name
			}
		}
	}
	if app := belongsTo(ctx, e); app != "" {
		p.app = filepath.Base(app)
	}
	p.need(filepath.Join(string(home), p.app), program)
	return p, nil
}

// belongsTo is the app folder for an enrollment; "" when its control plane is away and was not asked before.
func belongsTo(ctx context.Context, e enrollment.Enrollment) string {
	o, err := mirror(e.Origin, e.Pin, e.InsecureHTTP)
	if err != nil {
		return ""
	}
	defer o.Client.Close()
	if app, err := updater.Folder(ctx, string(e.Home), o); err == nil {
		return app
	}
	apps, err := e.Home.Apps()
	if err != nil {
		return ""
	}
	for _, app := range apps {
		if mark, _ := build.ReadApp(filepath.Base(app)); mark == "" {
			continue // the common one, which one that is not known goes with anyway
		}
		if is, err := updater.Belongs(ctx, string(e.Home), app, o); err == nil && is {
			return app
		}
	}
	return ""
}

// need adds what makes an app folder one that a service can run from: the program of this version, the link
// to the current one, and the link to the one that looks for updates.
func (p *place) need(app, program string) {
	if _, err := os.Stat(filepath.Join(app, "current", "interlock")); err != nil {
		to := filepath.Join(app, Version, "interlock")
		p.add("copy", program+" to "+to, func() error { return copyProgram(program, to) })
		p.add("link", filepath.Join(app, "current")+" to "+Version, func() error {
			return atomicfile.Symlink(Version, filepath.Join(app, "current"))
		})
	}
	if _, err := os.Stat(filepath.Join(app, "updater", "interlock")); err != nil {
		p.add("link", filepath.Join(app, "updater")+" to the current version", func() error {
			version, err := os.Readlink(filepath.Join(app, "current"))
			if err != nil {
				return fmt.Errorf("find the current version: %w", err)
			}
			return atomicfile.Symlink(version, filepath.Join(app, "updater"))
		})
	}
}

func (p *place) add(verb, what string, do func() error) {
	p.steps = append(p.steps, [2]string{verb, what})
	p.do = append(p.do, do)
}

// copyProgram copies a program so that a reader, or a machine that loses power, sees it whole or not at all.
func copyProgram(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("make the program's folder: %w", err)
	}
	return atomicfile.Copy(from, to, 0o755)
}
