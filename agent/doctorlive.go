package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"interlock.sh/agent/awake"
	"interlock.sh/agent/localapi"
	"interlock.sh/agent/models"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/retry"
	"interlock.sh/llama"
)

const (
	dialWithin  = 300 * time.Millisecond
	probeWithin = 30 * time.Second
	awakeWithin = 3 * time.Second
)

// checkModels looks at each model server: its state, an answer of one token, and that nobody off this
// machine can reach it.
func (a *Agent) checkModels(ctx context.Context) []localapi.Check {
	ports := a.ports()
	var checks []localapi.Check
	for _, d := range a.Report(ctx).Deployments {
		if port, ok := ports[d.Alias]; ok {
			checks = append(checks, a.checkBoundary(ctx, d.Alias, port))
		}
		c := localapi.Check{Name: "model " + d.Alias, OK: d.State.Serving() || d.State.Kind == fleet.StateDraining, Detail: d.State.String()}
		if !c.OK {
			c.Fix = "look at its log: interlock agent logs --deployment " + d.Alias
		}
		checks = append(checks, c)
		if d.State.Serving() {
			checks = append(checks, a.probe(ctx, d))
		}
	}
	return checks
}

// probe has the model answer one token.
func (a *Agent) probe(ctx context.Context, d fleet.DeploymentReport) localapi.Check {
	name := "answer " + d.Alias
	if d.State.Kind == fleet.StateFull {
		return localapi.Check{Name: name, OK: true, Detail: "not asked: every slot answers somebody"}
	}
	s := a.serving(d.ID)
	if s == nil {
		return localapi.Check{Name: name, OK: true, Detail: "not asked: it is stopped just now"}
	}
	model, lease, err := s.lease()
	if err != nil {
		return verdict(name, err, "")
	}
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	began := time.Now()
	err = model.Probe(ctx)
	took := time.Since(began).Round(time.Millisecond)
	lease.Done(err == nil)
	if err != nil {
		reason := fmt.Sprintf("it gave no token, after %v: %v", took, err)
		s.doubt("doctor: " + reason)
		err = fault.Wrap(err, fault.Unavailable, "%s", reason).
			WithHint("the model server is being started again if it does not recover; its log: interlock agent logs --deployment %s", d.Alias)
	}
	return verdict(name, err, fmt.Sprintf("one token in %v", took))
}

// checkAwake tries whether the machine can be kept from sleeping, as while a task runs.
func (a *Agent) checkAwake(ctx context.Context) localapi.Check {
	release := a.awake.Hold()
	defer release()
	var st awake.State
	_ = retry.Poll(ctx, clock.System, 10*time.Millisecond, awakeWithin, func() (bool, error) {
		st = a.awake.State()
		return st.Held || st.Refused != "", nil
	}) // the verdict is about the last look
	return awakeVerdict(st)
}

func awakeVerdict(st awake.State) localapi.Check {
	const name = "awake"
	switch {
	case st.Refused != "":
		return warning(name, "the system does not let us keep the machine awake while a task runs: "+st.Refused,
			"let this user take a block inhibitor for sleep (polkit action org.freedesktop.login1.inhibit-block-sleep), or set the machine never to sleep")
	case !st.Held:
		return warning(name, fmt.Sprintf("the system did not answer within %v whether it lets us keep the machine awake", awakeWithin),
			"a machine that sleeps loses the task in hand: set it never to sleep, or see why systemd-logind does not answer")
	}
	return verdict(name, nil, "the machine can be kept awake while a task runs")
}

// ports are where model servers listen, by alias.
func (a *Agent) ports() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]int{}
	for _, s := range a.serves {
		s.mu.Lock()
		if s.child != nil {
			if st := s.child.Status(); st.Port > 0 {
				out[s.want.Alias] = st.Port
			}
		}
		s.mu.Unlock()
	}
	return out
}

// checkBoundary proves that a model server cannot be reached from off this machine: nothing may answer on
// its port at any address of the machine but loopback.
func (a *Agent) checkBoundary(ctx context.Context, alias string, port int) localapi.Check {
	name := "boundary " + alias
	find := a.Outside
	if find == nil {
		find = outside
	}
	addrs, err := find()
	if err != nil {
		return verdict(name, err, "")
	}
	return verdict(name, closedAt(ctx, addrs, port), fmt.Sprintf("port %d answers on %s only", port, llama.Host))
}

// outside are the addresses of this machine but loopback.
func outside() ([]net.IP, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var out []net.IP
	for _, a := range addrs {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			out = append(out, ip)
		}
	}
	return out, nil
}

// closedAt is an error that names the address at which the port answers.
func closedAt(ctx context.Context, ips []net.IP, port int) error {
	dial := net.Dialer{Timeout: dialWithin}
	for _, ip := range ips {
		c, err := dial.DialContext(ctx, "tcp", net.JoinHostPort(ip.String(), strconv.Itoa(port)))
		if err == nil {
			_ = c.Close()
			return fault.New(fault.Conflict, "port %d answers at %s: the model server could be reached from outside", port, ip).
				WithHint("remove what makes it listen there from the deployment's arguments")
		}
	}
	return nil
}

// checkFiles looks at every model file of the desired state; deep reads it whole.
func checkFiles(ctx context.Context, cache *models.Cache, d fleet.Desired, deep bool) []localapi.Check {
	var out []localapi.Check
	for _, dep := range d.Deployments {
		for _, f := range dep.Files {
			err := cache.Check(ctx, f, deep)
			if errors.Is(err, fs.ErrNotExist) {
				err = fault.New(fault.NotFound, "%s is not on this machine yet", filepath.Base(f.Name)).WithHint("it is fetched when the model is to be served")
			}
			how := "unchanged since it was checked"
			if deep {
				how = "SHA-256 is right"
			}
			out = append(out, verdict("file "+f.Name, err, how))
		}
	}
	return out
}
