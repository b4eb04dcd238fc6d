//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"interlock.sh/access"
	"interlock.sh/client"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/gguftiny"
)

// plane is a control plane that runs, with its owner signed in and a project.
type plane struct {
	t     testing.TB
	dir   string // data folder, home of the owner's command line
	args  []string
	serve *process
	base  string // where it listens
	owner string // the owner token of its first start
	token string // the account's
	pin   string // of a server with a certificate of its own making
	*client.Client
}

const project = "home"

// newPlane starts a control plane on a free port and signs its owner in.
func newPlane(t testing.TB, args ...string) *plane {
	t.Helper()
	p := &plane{t: t, dir: tempDir(t), args: args}
	p.startOn("127.0.0.1:0")
	p.owner = p.says("owner token: ")
	return p
}

// signIn makes the account and the project through the API.
func (p *plane) signIn() *plane {
	p.t.Helper()
	var got access.LoginResponse
	open, err := client.New(client.Options{BaseURL: p.base, Pin: p.pin})
	if err != nil {
		p.t.Fatal(err)
	}
	defer open.Close()
	if got, err = open.Login(p.t.Context(), access.LoginRequest{Token: p.owner}); err != nil {
		p.t.Fatalf("sign in: %v", err)
	}
	p.token = got.Token
	if p.Client, err = client.New(client.Options{BaseURL: p.base, Credential: p.token, Project: project, Pin: p.pin}); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(p.Close)
	if _, err := p.WithProject("").NewProject(p.t.Context(), access.NewProjectRequest{ID: project}); err != nil {
		p.t.Fatalf("make the project: %v", err)
	}
	return p
}

// startOn starts the server and waits until it listens.
func (p *plane) startOn(listen string) {
	p.t.Helper()
	argv := append([]string{program, "serve", "--data", filepath.Join(p.dir, "data"), "--listen", listen, "--assets", assets}, p.args...)
	p.serve = start(p.t, "serve", []string{"HOME=" + p.dir, "PATH=" + os.Getenv("PATH")}, argv...)
	p.base = p.says("listening on ")
}

// restart starts the server again where it was.
func (p *plane) restart() {
	p.t.Helper()
	_, addr, _ := strings.Cut(p.base, "://")
	p.startOn(addr)
}

// says waits for a line of the server's output.
func (p *plane) says(prefix string) (rest string) {
	p.t.Helper()
	until(p.t, "the server says "+prefix, func() (err error) {
		if rest, err = p.serve.out.after(prefix); err != nil && p.serve.ended() {
			p.t.Fatalf("the server ended: %s", p.serve.out.tail(10))
		}
		return err
	})
	return rest
}

// output is what a command line did.
type output struct {
	out, err string
	code     int
}

// cli runs one command line as the owner of this plane.
func (p *plane) cli(args ...string) output {
	p.t.Helper()
	return p.cliWith(nil, "", args...)
}

// cliWith runs one with more environment and with standard input.
func (p *plane) cliWith(env []string, in string, args ...string) output {
	p.t.Helper()
	return runProgram(p.t, p.cliEnv(env), in, append([]string{program}, args...)...)
}

func (p *plane) cliEnv(more []string) []string {
	return append([]string{"HOME=" + p.dir, "PATH=" + os.Getenv("PATH"), "INTERLOCK_URL=" + p.base}, more...)
}

// ok runs a command line that must succeed and gives its output.
func (p *plane) ok(args ...string) string {
	p.t.Helper()
	got := p.cli(args...)
	if got.code != 0 {
		p.t.Fatalf("interlock %s: exit %d\n%s%s", strings.Join(args, " "), got.code, got.out, got.err)
	}
	return got.out
}

// fromJSON runs a command line with --json and decodes what it prints.
func fromJSON[T any](p *plane, args ...string) (v T) {
	p.t.Helper()
	out := p.ok(append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		p.t.Fatalf("interlock %s --json: %v\n%s", strings.Join(args, " "), err, out)
	}
	return v
}

// runProgram runs a program to its end.
func runProgram(t testing.TB, env []string, in string, argv ...string) output {
	t.Helper()
	return runAs(t, nil, env, in, argv...)
}

func runAs(t testing.TB, attr *syscall.SysProcAttr, env []string, in string, argv ...string) output {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	var out, problems bytes.Buffer
	cmd.SysProcAttr, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = attr, env, strings.NewReader(in), &out, &problems
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %s: %v", argv[0], err)
	}
	return output{out.String(), problems.String(), cmd.ProcessState.ExitCode()}
}

// group registers a model group with one deployment of a model's files, and gives its keys by role.
func (p *plane) group(name string, rel fleet.NewReleaseRequest, files ...string) (fleet.Group, map[fleet.Role]string) {
	p.t.Helper()
	ctx := p.t.Context()
	g, err := p.RegisterGroup(ctx, fleet.NewGroupRequest{Name: name})
	if err != nil {
		p.t.Fatalf("register group: %v", err)
	}
	for _, f := range files {
		ref, err := p.Upload(ctx, f, client.Transfer{})
		if err != nil {
			p.t.Fatalf("upload: %v", err)
		}
		rel.Files = append(rel.Files, fleet.File{Name: filepath.Base(f), SHA256: ref.SHA256, Size: ref.Size})
	}
	rel.Name, rel.Runtime, rel.License = "first", fleet.LlamaCpp, "test"
	if _, err := p.CreateRelease(ctx, g.Group.ID, rel); err != nil {
		p.t.Fatalf("create release: %v", err)
	}
	if _, err := p.Deploy(ctx, g.Group.ID, fleet.NewDeploymentRequest{Release: "first", Alias: name}); err != nil {
		p.t.Fatalf("deploy: %v", err)
	}
	keys := map[fleet.Role]string{}
	for _, k := range g.Keys {
		keys[k.Role] = k.Key
	}
	return g.Group, keys
}

// tinyGroup is a group that serves the tiny model under its name.
func (p *plane) tinyGroup(name string) (fleet.Group, map[fleet.Role]string) {
	p.t.Helper()
	return p.group(name, fleet.NewReleaseRequest{ContextLength: 4096, Slots: 2}, tiny(p.t, gguftiny.Options{})...)
}

// tiny writes the tiny model.
func tiny(t testing.TB, o gguftiny.Options) []string {
	t.Helper()
	files, err := gguftiny.Write(filepath.Join(tempDir(t), "tiny.gguf"), 1, o)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// key makes a key of the project and gives its text.
func (p *plane) key(kind access.Kind) string {
	p.t.Helper()
	k, err := p.NewKey(p.t.Context(), project, access.NewKeyRequest{Kind: kind, Label: string(kind)})
	if err != nil {
		p.t.Fatalf("make a key: %v", err)
	}
	return k.Key
}

// machine reads the machine that a group has one of.
func (p *plane) machine(group string) (fleet.Machine, error) {
	st, err := p.GroupStatus(p.t.Context(), group)
	if err != nil {
		return fleet.Machine{}, err
	}
	if len(st.Machines) != 1 {
		return fleet.Machine{}, fmt.Errorf("%d machines, want one", len(st.Machines))
	}
	return st.Machines[0], nil
}

// wantState waits until the machine of a group is in a state.
func (p *plane) wantState(group string, says func(fleet.State) bool, what string) (m fleet.Machine) {
	p.t.Helper()
	until(p.t, "the machine is "+what, func() (err error) {
		if m, err = p.machine(group); err == nil && !says(m.State) {
			err = fmt.Errorf("it is %s; last error %q", m.State, lastError(m))
		}
		return err
	})
	return m
}

func lastError(m fleet.Machine) string {
	for _, d := range m.Deployments {
		if d.LastError != "" {
			return d.LastError
		}
	}
	return ""
}

// wantReady waits until the machine of a group serves, and its worker has said so too.
func (p *plane) wantReady(group string) fleet.Machine {
	p.t.Helper()
	m := p.wantState(group, func(s fleet.State) bool { return s.Kind == fleet.StateReady }, "ready")
	p.wantWorker(m.ID, "ready")
	return m
}

// wantWorker waits until the worker of a machine has registered in a state. What a machine serves and what
// its worker claims are told apart, so for a moment one may be known and the other not.
func (p *plane) wantWorker(machine, state string) {
	p.t.Helper()
	until(p.t, "the worker of the machine is "+state, func() error {
		workers, err := p.TaskWorkers(p.t.Context())
		if err != nil {
			return err
		}
		for _, w := range workers {
			if w.Machine == machine && w.State == state && (state != "ready" || len(w.Pools) > 0) {
				return nil
			}
		}
		return fmt.Errorf("the workers are %+v", workers)
	})
}

// realServer is the real llama-server, found once.
func realServer(t testing.TB) string { t.Helper(); return testkit.LlamaServer(t) }
