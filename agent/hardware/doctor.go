package hardware

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"interlock.sh/access"
	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/diskspace"
	"interlock.sh/llama"
)

const (
	skewLimit = 2 * time.Minute
	lowDisk   = 5 << 30
)

// Doctor checks what the worker needs, whether it runs or not. Checks of the service and of the program's
// signature are the caller's.
func (h Home) Doctor(ctx context.Context, version string) []localapi.Check {
	checks := []localapi.Check{h.checkPermissions()}
	s, err := h.Settings()
	checks = append(checks, check("settings", err, "model "+s.Alias+", worker "+s.Worker))
	if err != nil {
		return checks
	}
	checks = append(checks, s.checkControl(ctx, version)...)
	checks = append(checks, s.checkModelBoundary())
	checks = append(checks, h.checkServer(ctx, s)...)
	return append(checks, h.checkDisk(), h.checkState())
}

// check is a line of a doctor's report, from an error with its way out.
func check(name string, err error, detail string) localapi.Check {
	if err == nil {
		return localapi.Check{Name: name, OK: true, Detail: detail}
	}
	f := fault.Of(err)
	if f.Code == fault.Internal {
		return localapi.Check{Name: name, Detail: err.Error(), Fix: "see " + name + " in the log"}
	}
	return localapi.Check{Name: name, Detail: f.Message, Fix: f.Hint}
}

// checkPermissions: the key is its owner's alone, in a folder that nobody else writes to.
func (h Home) checkPermissions() localapi.Check {
	c := localapi.Check{Name: "permissions"}
	for path, bad := range map[string]fs.FileMode{h.Env(): 0o077, string(h): 0o022, h.App(): 0o022} {
		st, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != h.Env():
		case err != nil:
			c.Detail, c.Fix = err.Error(), "run the install line of `interlock hardware command`"
			return c
		case st.Mode().Perm()&bad != 0:
			c.Detail, c.Fix = fmt.Sprintf("%s has mode %v", path, st.Mode().Perm()), fmt.Sprintf("chmod go-rwx %s", path)
			return c
		}
	}
	c.OK, c.Detail = true, h.Env()+" is yours alone"
	return c
}

// checkControl asks the control plane what the key is.
func (s Settings) checkControl(ctx context.Context, version string) []localapi.Check {
	c, err := s.client(version)
	if err != nil {
		return []localapi.Check{check("control plane", err, "")}
	}
	defer c.Close()
	who, err := c.Whoami(ctx)
	if err == nil && who.Kind != access.TaskWorker {
		err = fault.New(fault.ScopeDenied, "the key is of kind %s", who.Kind).WithHint("replace it in the file of settings by a task-worker key: interlock keys new --kind task-worker")
	}
	checks := []localapi.Check{check("control plane", err, fmt.Sprintf("%s takes the key for project %s: %s", s.URL, who.Project, strings.Join(who.Scopes, ", ")))}
	if skew := c.ServerTimeSkew(); skew.Abs() > skewLimit {
		return append(checks, localapi.Check{Name: "clock", Detail: fmt.Sprintf("%v away from the control plane's", skew.Abs().Round(time.Second)), Fix: "set the clock of this machine"})
	}
	return append(checks, localapi.Check{Name: "clock", OK: true, Detail: fmt.Sprintf("within %v of the control plane's", skewLimit)})
}

// checkModelBoundary: prompts stay on this machine.
func (s Settings) checkModelBoundary() localapi.Check {
	c := localapi.Check{Name: "model boundary", OK: true, Detail: "our own server: " + llama.Host + ", a free port, a random key"}
	if s.Server == "" {
		return c
	}
	c.Detail = s.Server + " is this machine's"
	if u, err := url.Parse(s.Server); err == nil && !local(u) {
		c.Warn = true
		c.Detail, c.Fix = fmt.Sprintf("prompts leave this machine for %s (%s=1)", s.Server, EnvAllowRemote), "use a server on 127.0.0.1 unless that network is trusted"
	} else if s.ServerKey == "" {
		c.Warn = true
		c.Detail, c.Fix = c.Detail+" and has no key: any program of this machine could stand in for it", "start it with --api-key, and name the key in "+EnvServerKey
	}
	return c
}

// checkServer asks for the model server, or for what one of our own needs.
func (h Home) checkServer(ctx context.Context, s Settings) []localapi.Check {
	if s.Server != "" {
		a := newAdopted(s, clock.System, slog.New(slog.DiscardHandler)) // it looks once, and the report says what it saw
		defer a.current().CloseStreams()
		st, _, err := a.ask(ctx)
		if !st.ready {
			hint := "start it, or wait until it has loaded: " + s.Server
			if f := fault.Of(err); err != nil && f.Code != fault.Internal && f.Hint != "" {
				hint = f.Hint
			}
			err = fault.New(fault.Unavailable, "%s", st.words).WithHint("%s", hint)
		}
		return []localapi.Check{check("model server", err, fmt.Sprintf("%s serves %s, %d slots", s.Server, s.Alias, st.slots))}
	}
	bin, err := llama.Find(ctx, s.LlamaServer)
	if err == nil {
		err = bin.Check()
	}
	checks := []localapi.Check{check("llama-server", err, bin.Path+" "+bin.Version)}
	_, err = (&own{s: s}).driver(ctx)
	if err == nil || checks[0].OK {
		checks = append(checks, check("model", err, filepath.Base(s.Model)+" can be read"))
	}
	return checks
}

func (h Home) checkDisk() localapi.Check {
	free, err := diskspace.Free(string(h))
	if err != nil {
		return check("disk", err, "")
	}
	if free < lowDisk {
		return localapi.Check{Name: "disk", Detail: fmt.Sprintf("%d MB free at %s", free>>20, h), Fix: "free some space: logs and answers that wait need it"}
	}
	return localapi.Check{Name: "disk", OK: true, Detail: fmt.Sprintf("%d GB free", free>>30)}
}

func (h Home) checkState() localapi.Check {
	st, err := h.State()
	if err != nil {
		return check("worker", err, "")
	}
	if !st.Running {
		return localapi.Check{Name: "worker", Detail: "it does not run: " + st.Words, Fix: "start it: setup.sh restart"}
	}
	c := localapi.Check{Name: "worker", OK: st.Ready, Detail: fmt.Sprintf("version %s, pid %d: %s", st.Version, st.Process.PID, st.Words)}
	if !c.OK {
		c.Fix = "see " + h.Log()
	}
	return c
}
