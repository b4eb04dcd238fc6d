package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"interlock.sh/access"
	"interlock.sh/client"
)

const project = "bench"

// upWithin is how long a program may take until it answers.
const upWithin = 2 * time.Minute

// Plane is a control plane that runs, with an account, a project and keys.
type Plane struct {
	Base  string
	Data  string         // its data folder
	Owner *client.Client // the account, for the project

	dir  string
	bin  string // the folder of the programs
	proc *process
}

// StartPlane starts `interlock serve` on an empty data folder under dir, and signs in.
func StartPlane(ctx context.Context, bin, dir string) (*Plane, error) {
	p := &Plane{dir: dir, bin: bin, Data: filepath.Join(dir, "data")}
	said := make(chan string, 64)
	var err error
	p.proc, err = start(dir, "serve", p.program(), []string{"serve", "--data", p.Data, "--listen", "127.0.0.1:0"}, p.env(),
		func(line string) {
			select {
			case said <- line:
			default:
			}
		})
	if err != nil {
		return nil, err
	}
	if err := p.signIn(ctx, said); err != nil {
		p.Stop()
		return nil, fmt.Errorf("start the control plane (its log is %s): %w", filepath.Join(dir, "serve.log"), err)
	}
	return p, nil
}

func (p *Plane) program() string { return filepath.Join(p.bin, "interlock") }

// env is a private home, so that nothing of the user's is read or written.
func (p *Plane) env(more ...string) []string {
	return append([]string{"HOME=" + p.dir, "NIGHTSHIFT_HOME=" + filepath.Join(p.dir, "n"), "PATH=" + os.Getenv("PATH")}, more...)
}

func (p *Plane) signIn(ctx context.Context, said <-chan string) error {
	var token string
	deadline := time.After(upWithin)
	for token == "" || p.Base == "" {
		select {
		case line := <-said:
			if v, ok := strings.CutPrefix(line, "owner token: "); ok {
				token = strings.TrimSpace(v)
			}
			if v, ok := strings.CutPrefix(line, "listening on "); ok {
				p.Base = strings.TrimSpace(v)
			}
		case <-p.proc.exited:
			return errors.New("it ended")
		case <-deadline:
			return fmt.Errorf("it did not listen within %v", upWithin)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	nobody, err := client.New(client.Options{BaseURL: p.Base})
	if err != nil {
		return err
	}
	in, err := nobody.Login(ctx, access.LoginRequest{Token: token})
	if err != nil {
		return err
	}
	p.Owner = nobody.WithCredential(in.Token).WithProject(project)
	_, err = p.Owner.NewProject(ctx, access.NewProjectRequest{ID: project})
	return err
}

// Key makes a key of a kind.
func (p *Plane) Key(ctx context.Context, kind access.Kind) (string, error) {
	k, err := p.Owner.NewKey(ctx, project, access.NewKeyRequest{Kind: kind, Label: string(kind)})
	return k.Key, err
}

// Client talks to the control plane over connections of its own, with a key of a kind.
func (p *Plane) Client(ctx context.Context, kind access.Kind) (*client.Client, error) {
	key, err := p.Key(ctx, kind)
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{BaseURL: p.Base, Credential: key})
}

// Stop ends the control plane.
func (p *Plane) Stop() { p.proc.stop() }
