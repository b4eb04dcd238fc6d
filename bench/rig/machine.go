package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/client"
	"interlock.sh/fleet"
)

// Slots is how many requests the deployment serves at once.
const Slots = 4

// Alias is what the deployment is called.
const Alias = "bench-model"

// Machine is an enrolled agent.
type Machine struct {
	Home   enrollment.Home
	Group  string
	Pid    int              // of the agent
	Local  *localapi.Client // its owner's door
	Direct Door             // the llama-server that the agent supervises, once it serves

	plane *Plane
	proc  *process
}

// Door is an OpenAI-compatible server and the key that opens it.
type Door struct{ URL, Key string }

// StartMachine makes a group, enrolls an agent in it, and runs it as an install does: as the current
// program of the app folder. It serves nothing yet.
func StartMachine(ctx context.Context, p *Plane, group, llamaServer string) (*Machine, error) {
	made, err := p.Owner.RegisterGroup(ctx, fleet.NewGroupRequest{Name: group})
	if err != nil {
		return nil, err
	}
	var key string
	for _, k := range made.Keys {
		if k.Role == fleet.RoleClient {
			key = k.Key
		}
	}
	m := &Machine{Home: enrollment.Home(filepath.Join(p.dir, "n")), Group: made.Group.ID, plane: p}
	err = run(ctx, p.program(), []string{"agent", "enroll", "--url", p.Base, "--group", m.Group, "--role", string(fleet.RoleClient), "--key-stdin"},
		p.env(), strings.NewReader(key+"\n"))
	if err != nil {
		return nil, err
	}
	if err := m.Install("1.0.0"); err != nil {
		return nil, err
	}
	m.proc, err = start(p.dir, "agent-"+group, filepath.Join(m.app(), "current", "interlock"),
		[]string{"agent", "run", "--group", m.Group, "--role", string(fleet.RoleClient)}, p.env("LLAMA_SERVER="+llamaServer), nil)
	if err != nil {
		return nil, err
	}
	m.Pid = m.proc.cmd.Process.Pid
	if err := m.await(ctx, fleet.StateIdle); err != nil {
		m.Stop()
		return nil, err
	}
	socket, err := m.Home.Socket(m.Group, fleet.RoleClient)
	if err != nil {
		m.Stop()
		return nil, err
	}
	m.Local = localapi.Dial(socket)
	return m, nil
}

func (m *Machine) app() string { return filepath.Join(string(m.Home), "app") }

// Install puts the program into the folder of a version and makes that the current one. A running agent
// goes on as the one that it is.
func (m *Machine) Install(version string) error {
	dir := filepath.Join(m.app(), version)
	program, err := os.ReadFile(m.plane.program())
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if _, there := os.Stat(filepath.Join(dir, "interlock")); err == nil && there != nil {
		err = os.WriteFile(filepath.Join(dir, "interlock"), program, 0o700)
	}
	link := filepath.Join(m.app(), "current")
	if err == nil {
		err = os.Symlink(version, link+".new")
	}
	if err == nil {
		err = os.Rename(link+".new", link)
	}
	if err != nil {
		return fmt.Errorf("install version %s: %w", version, err)
	}
	return nil
}

// Version is the folder whose program the agent is now.
func (m *Machine) Version() (string, error) {
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", m.Pid))
	if err != nil {
		return "", fmt.Errorf("read what the agent runs: %w", err)
	}
	return filepath.Base(filepath.Dir(program)), nil
}

// Serve deploys a model to the group and waits until it is ready. It has one thread, since two of two
// cores make llama-server slower, and leave nothing to the rest.
func (m *Machine) Serve(ctx context.Context, model string) error {
	owner := m.plane.Owner
	ref, err := owner.Upload(ctx, model, client.Transfer{})
	if err != nil {
		return fmt.Errorf("deploy the model: %w", err)
	}
	_, err = owner.CreateRelease(ctx, m.Group, fleet.NewReleaseRequest{
		Name: "v1", Files: []fleet.File{{Name: filepath.Base(model), SHA256: ref.SHA256, Size: ref.Size}},
		ContextLength: 1024, Slots: Slots, License: "for measuring only",
	})
	if err == nil {
		_, err = owner.Deploy(ctx, m.Group, fleet.NewDeploymentRequest{Release: "v1", Alias: Alias, Settings: fleet.SettingsChange{Threads: new(1)}})
	}
	if err != nil {
		return fmt.Errorf("deploy the model: %w", err)
	}
	if err := m.await(ctx, fleet.StateReady); err != nil {
		return err
	}
	return m.findServer()
}

// Stop ends the agent and with it the model server.
func (m *Machine) Stop() { m.proc.stop() }

// await waits until the control plane shows the machine in a state.
func (m *Machine) await(ctx context.Context, want fleet.StateKind) error {
	deadline := time.Now().Add(upWithin)
	for {
		machines, err := m.plane.Owner.Machines(ctx)
		if err != nil {
			return err
		}
		state := "not seen"
		for _, one := range machines {
			if one.Group == m.Group {
				if state = one.State.String(); one.State.Kind == want {
					return nil
				}
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-m.proc.exited:
			return fmt.Errorf("the agent ended; its log is %s", m.proc.log.Name())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v the machine is %s, not %s; the agent's log is %s", upWithin, state, want, m.proc.log.Name())
		}
	}
}

// findServer reads port and key of the model server where the agent keeps them for itself.
func (m *Machine) findServer() error {
	tables, _ := filepath.Glob(filepath.Join(m.Home.Role(m.Group, fleet.RoleClient), "run", "*.json"))
	for _, path := range tables {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var table struct {
			Children []struct {
				Port int `json:"port"`
			} `json:"children"`
		}
		if json.Unmarshal(b, &table) != nil || len(table.Children) != 1 {
			continue
		}
		keys, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.key"))
		if len(keys) != 1 {
			return fmt.Errorf("%d keys of model servers in %s, not one", len(keys), filepath.Dir(path))
		}
		key, err := os.ReadFile(keys[0])
		if err != nil {
			return err
		}
		m.Direct = Door{URL: "http://127.0.0.1:" + strconv.Itoa(table.Children[0].Port), Key: strings.TrimSpace(string(key))}
		return nil
	}
	return errors.New("the agent's table of model servers was not found")
}
