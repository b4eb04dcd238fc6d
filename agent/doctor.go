package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/localapi"
	"interlock.sh/agent/models"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/diskspace"
	"interlock.sh/llama"
)

const (
	skewLimit  = 2 * time.Minute
	lowDisk    = 5 << 30
	dialWithin = 300 * time.Millisecond
)

// Doctor checks the agent that runs, and what it serves.
func (a *Agent) Doctor(ctx context.Context, deep bool) []localapi.Check {
	checks := Doctor(ctx, a.Enrollment, a.Version)
	a.mu.Lock()
	desired := a.desired
	a.mu.Unlock()
	checks = append(checks, checkFiles(ctx, a.host.cache, desired, deep)...)
	for alias, port := range a.ports() {
		checks = append(checks, checkBoundary(ctx, alias, port))
	}
	for _, d := range a.Report(ctx).Deployments {
		c := localapi.Check{Name: "model " + d.Alias, OK: d.State.Serving(), Detail: d.State.String()}
		if !c.OK {
			c.Fix = "look at its log: interlock agent logs --deployment " + d.Alias
		}
		checks = append(checks, c)
	}
	return checks
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

// Doctor checks what can be checked of an enrollment whether or not its agent runs.
func Doctor(ctx context.Context, e enrollment.Enrollment, version string) []localapi.Check {
	env, envErr := e.Env()
	checks := []localapi.Check{
		verdict("credential file", envErr, "owner-only (0600)"),
		checkFolder(e.Dir()),
		checkHost(ctx, e),
		checkDisk(string(e.Home)),
	}
	if e.Role == fleet.RoleClient && e.Runtime == fleet.LlamaCpp {
		checks = append(checks, checkServer(ctx, env))
	}
	if envErr == nil {
		checks = append(checks, checkControlPlane(ctx, e, version)...)
	}
	return checks
}

func verdict(name string, err error, fine string) localapi.Check {
	if err == nil {
		return localapi.Check{Name: name, OK: true, Detail: fine}
	}
	e := fault.Of(err)
	c := localapi.Check{Name: name, Detail: e.Message, Fix: e.Hint}
	if e.Code == fault.Internal {
		c.Detail, c.Fix = err.Error(), ""
	}
	return c
}

func checkFolder(dir string) localapi.Check {
	st, err := os.Stat(dir)
	if err == nil && st.Mode().Perm()&0o077 != 0 {
		err = fault.New(fault.Invalid, "%s has mode %v; others can read it", dir, st.Mode().Perm()).WithHint("chmod 700 %s", dir)
	}
	return verdict("state folder", err, dir)
}

func checkHost(ctx context.Context, e enrollment.Enrollment) localapi.Check {
	var err error
	if e.HostID != "" && e.HostID != hostfacts.ID(ctx) {
		err = fault.New(fault.Conflict, "this folder was enrolled on another computer (%s)", e.Name).WithHint("run the install line here with a fresh key")
	}
	return verdict("identity", err, e.Machine)
}

func checkDisk(dir string) localapi.Check {
	free, err := diskspace.Free(dir)
	if err == nil && free < lowDisk {
		err = fault.New(fault.DiskFull, "%.1f GiB are free where models are kept", float64(free)/(1<<30)).WithHint("free some space")
	}
	return verdict("disk", err, fmt.Sprintf("%.1f GiB free", float64(free)/(1<<30)))
}

// checkBoundary proves that a model server cannot be reached from off this machine: nothing may answer on
// its port at any address of the machine but loopback.
func checkBoundary(ctx context.Context, alias string, port int) localapi.Check {
	name := "boundary " + alias
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return verdict(name, fmt.Errorf("list addresses: %w", err), "")
	}
	var outside []net.IP
	for _, a := range addrs {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			outside = append(outside, ip)
		}
	}
	return verdict(name, closedAt(ctx, outside, port), fmt.Sprintf("port %d answers on %s only", port, llama.Host))
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

func checkServer(ctx context.Context, env enrollment.Env) localapi.Check {
	bin, err := llama.Find(ctx, env[enrollment.EnvLlamaServer])
	if err == nil {
		err = bin.Check()
	}
	devices := "CPU only"
	if len(bin.GPUs) > 0 {
		devices = bin.GPUs[0]
	}
	return verdict("llama-server", err, fmt.Sprintf("%s, version %s, %s", bin.Path, bin.Version, devices))
}

func checkControlPlane(ctx context.Context, e enrollment.Enrollment, version string) []localapi.Check {
	c, err := e.Client(version)
	if err != nil {
		return []localapi.Check{verdict("control plane", err, "")}
	}
	defer c.Close()
	_, err = c.Self(ctx)
	checks := []localapi.Check{verdict("control plane", err, e.Origin+" answers and knows this machine")}
	if skew := c.ServerTimeSkew(); err == nil {
		var late error
		if skew.Abs() > skewLimit {
			late = fault.New(fault.Conflict, "this machine's clock differs from the control plane's by %v", skew.Round(time.Second)).
				WithHint("set the clock, for example: timedatectl set-ntp true")
		}
		checks = append(checks, verdict("clock", late, fmt.Sprintf("within %v of the control plane", skewLimit)))
	}
	return checks
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
