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

	"interlock.sh/client"
	"interlock.sh/fleet"
)

// Slots is how many requests the deployment serves at once.
const Slots = 4

// Alias is what the deployment is called.
const Alias = "bench-model"

// Machine is an enrolled agent whose model is ready.
type Machine struct {
	Direct Door // the llama-server that the agent supervises

	proc *process
}

// Door is an OpenAI-compatible server and the key that opens it.
type Door struct{ URL, Key string }

// StartMachine uploads and deploys a model, enrolls an agent, and waits until the model is ready.
func StartMachine(ctx context.Context, p *Plane, llamaServer, model string) (*Machine, error) {
	key, err := deploy(ctx, p, model)
	if err != nil {
		return nil, fmt.Errorf("deploy the model: %w", err)
	}
	err = run(ctx, p.program(), []string{"agent", "enroll", "--url", p.Base, "--group", project, "--role", string(fleet.RoleClient), "--key-stdin"},
		p.env(), strings.NewReader(key+"\n"))
	if err != nil {
		return nil, err
	}
	m := &Machine{}
	m.proc, err = start(p.dir, "agent", p.program(), []string{"agent", "run"}, p.env("LLAMA_SERVER="+llamaServer), nil)
	if err != nil {
		return nil, err
	}
	if err := m.ready(ctx, p); err != nil {
		m.Stop()
		return nil, fmt.Errorf("wait for the model (the agent's log is %s): %w", filepath.Join(p.dir, "agent.log"), err)
	}
	return m, nil
}

// Stop ends the agent and with it the model server.
func (m *Machine) Stop() { m.proc.stop() }

// deploy makes group, release and deployment, and returns the bootstrap key for machines. One thread,
// since two of two cores make llama-server slower, and leave nothing to the rest.
func deploy(ctx context.Context, p *Plane, model string) (key string, err error) {
	group, err := p.Owner.RegisterGroup(ctx, fleet.NewGroupRequest{Name: project})
	if err != nil {
		return "", err
	}
	ref, err := p.Owner.Upload(ctx, model, client.Transfer{})
	if err != nil {
		return "", err
	}
	_, err = p.Owner.CreateRelease(ctx, group.Group.ID, fleet.NewReleaseRequest{
		Name: "v1", Files: []fleet.File{{Name: filepath.Base(model), SHA256: ref.SHA256, Size: ref.Size}},
		ContextLength: 1024, Slots: Slots, License: "for measuring only",
	})
	if err != nil {
		return "", err
	}
	_, err = p.Owner.Deploy(ctx, group.Group.ID, fleet.NewDeploymentRequest{Release: "v1", Alias: Alias, Settings: fleet.SettingsChange{Threads: new(1)}})
	if err != nil {
		return "", err
	}
	for _, k := range group.Keys {
		if k.Role == fleet.RoleClient {
			return k.Key, nil
		}
	}
	return "", errors.New("the group came without a key for client machines")
}

// ready waits until the control plane shows the model as ready, and finds the model server.
func (m *Machine) ready(ctx context.Context, p *Plane) error {
	deadline := time.Now().Add(upWithin)
	for {
		machines, err := p.Owner.Machines(ctx)
		if err != nil {
			return err
		}
		state := "not seen"
		if len(machines) == 1 {
			state = machines[0].State.String()
			if machines[0].State.Kind == fleet.StateReady {
				break
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-m.proc.exited:
			return errors.New("the agent ended")
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v it is %s", upWithin, state)
		}
	}
	return m.findServer(p)
}

// findServer reads port and key of the model server where the agent keeps them for itself.
func (m *Machine) findServer(p *Plane) error {
	tables, _ := filepath.Glob(filepath.Join(p.dir, "n", "groups", "*", "roles", string(fleet.RoleClient), "run", "*.json"))
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
