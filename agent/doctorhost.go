package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/localapi"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/llama"
)

// checkFolder looks at who may read the folders with the credential, and the door beside them.
func checkFolder(dir string) localapi.Check {
	st, err := os.Stat(dir)
	if err == nil && st.Mode().Perm()&0o077 != 0 {
		err = fault.New(fault.Invalid, "%s has mode %v; others can read it", dir, st.Mode().Perm()).WithHint("chmod 700 %s", dir)
	}
	return verdict("state folder", err, dir)
}

// checkOwner finds what belongs to another user, as after one run under sudo: the agent, which is no root,
// could not write there.
func checkOwner(e enrollment.Enrollment) localapi.Check {
	const name = "file owner"
	dir := e.Dir()
	st, err := os.Stat(string(e.Home))
	if err != nil {
		return verdict(name, fmt.Errorf("look at the agent's folder: %w", err), "")
	}
	mine, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return verdict(name, nil, "not known on this system")
	}
	var foreign string
	err = filepath.WalkDir(e.Home.Group(e.Group), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // files come and go
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // gone meanwhile
		}
		if sys, ok := info.Sys().(*syscall.Stat_t); ok && sys.Uid != mine.Uid {
			foreign = path
			return filepath.SkipAll
		}
		return nil
	})
	if err == nil && foreign != "" {
		err = fault.New(fault.Invalid, "%s belongs to another user than %s does", foreign, string(e.Home)).
			WithHint("sudo chown -R %s %s; and run the agent's commands without sudo", userName(mine.Uid), e.Home.Group(e.Group))
	}
	if errors.Is(err, fs.ErrPermission) {
		err = fault.New(fault.Invalid, "not everything below %s can be read: %v", dir, err).WithHint("run this as the user who installed the agent")
	}
	return verdict(name, err, "everything belongs to one user")
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

// checkServer looks at the model server program: that it is there, knows what we need, and uses the
// accelerator that the machine has.
func checkServer(ctx context.Context, env enrollment.Env) localapi.Check {
	bin, err := llama.Find(ctx, env[enrollment.EnvLlamaServer])
	if err == nil {
		err = bin.Check()
	}
	if err != nil {
		return verdict("llama-server", err, "")
	}
	var facts fleet.HostFacts
	hostfacts.Refresh(ctx, &facts, "/")
	return serverVerdict(bin, facts.GPUs)
}

func serverVerdict(bin llama.Binary, gpus []fleet.GPU) localapi.Check {
	devices := "CPU only"
	if len(bin.GPUs) > 0 {
		devices = bin.GPUs[0]
	}
	words := fmt.Sprintf("%s, version %s, %s", bin.Path, bin.Version, devices)
	if bin.CPUOnly() && len(gpus) > 0 {
		return warning("llama-server", words+", and this machine has "+gpus[0].Name,
			"install a build of llama.cpp for this accelerator, and name it by "+enrollment.EnvLlamaServer+" in worker.env if it stands elsewhere")
	}
	return verdict("llama-server", nil, words)
}

// checkControlPlane asks whether the control plane answers, knows this machine, and has the same time.
func checkControlPlane(ctx context.Context, e enrollment.Enrollment, version string) []localapi.Check {
	const name = "control plane"
	c, err := e.Client(version)
	if err != nil {
		return []localapi.Check{verdict(name, err, "")}
	}
	defer c.Close()
	_, err = c.Self(ctx)
	seen := verdict(name, err, e.Origin+" answers and knows this machine")
	if errors.Is(err, fault.Revoked) || errors.Is(err, fault.Unauthenticated) {
		seen.Detail, seen.Fix = "the credential of this machine is not taken: "+seen.Detail, "run the install line with a fresh key: interlock models key rotate client --group "+e.Group+" prints one"
	}
	checks := []localapi.Check{seen}
	// An answer tells the time whatever it says; without one there is nothing to compare.
	if words := c.ClockWords(); words != "" {
		checks = append(checks, localapi.Check{Name: "clock", Detail: words, Fix: "set the clock, for example: timedatectl set-ntp true"})
	} else if err == nil {
		checks = append(checks, verdict("clock", nil, fmt.Sprintf("within %.0f min of the control plane", client.ClockLimit.Minutes())))
	}
	return checks
}
