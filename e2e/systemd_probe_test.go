//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"interlock.sh/fleet"
)

// probeReport names the file to which this test program writes what it may do, when it is started within a
// service's confinement.
const probeReport = "E2E_PROBE_REPORT"

// probed is what a program can do where it runs: "" is a success, anything else the error.
type probed map[string]string

// maybeProbe becomes the probe, and never returns, in a process that is told to be it.
func maybeProbe() {
	report := os.Getenv(probeReport)
	if report == "" {
		return
	}
	out := probed{}
	note := func(what string, err error) {
		out[what] = ""
		if err != nil {
			out[what] = err.Error()
		}
	}
	for _, device := range accelerators {
		fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		// No driver answers on this machine. What counts is that the kernel looked for one.
		if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
			err = nil
		}
		note(device, err)
	}
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		err = unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC)
	}
	note("compile in memory", err)
	_, err = unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	note("write and run memory", err)
	note("lock memory", unix.Mlock(page))
	for what, path := range map[string]string{
		"write ~/.nightshift": filepath.Join(filepath.Dir(report), "written"), "write /tmp": "/tmp/e2e-probe",
		"write ~/.cache": "/home/fleet/.cache/written",
		"write ~":        "/home/fleet/written", "write /usr": "/usr/written", "write /etc": "/etc/written",
	} {
		note(what, os.WriteFile(path, nil, 0o600))
	}
	note("become root", syscall.Setuid(0))
	b, err := json.Marshal(out)
	if err == nil {
		err = os.WriteFile(report, b, 0o600)
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

var accelerators = []string{"/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd", "/dev/dri/renderD128"}

// The hardening of the unit leaves a model server what it needs: the accelerators, memory that it compiles
// into, its own folder; and takes everything else.
func TestSystemdServiceReachesItsAccelerator(t *testing.T) {
	t.Parallel()
	c := newComputer(t)
	c.plane()
	// Nodes as drivers make them: NVIDIA's are everybody's, the others belong to the group render, in
	// which the user is not.
	c.root(`getent group render >/dev/null || groupadd --system render
mkdir -p /dev/dri && mknod -m 666 /dev/nvidia0 c 195 0 && mknod -m 666 /dev/nvidiactl c 195 255
mknod -m 660 /dev/kfd c 235 0 && mknod -m 660 /dev/dri/renderD128 c 226 128 && chgrp render /dev/kfd /dev/dri/renderD128`)
	// Nobody has ever compiled anything for the accelerator.
	c.root("rm -rf /home/fleet/.cache")
	group, lines := c.group("small")
	c.fleet(lines[fleet.RoleClient])
	unit := workerUnit(group, fleet.RoleClient)
	const report = "/home/fleet/.nightshift/probe.json"
	look := func(more string) (got probed) {
		t.Helper()
		c.root("mkdir -p " + unitFolder + "/" + unit + ".service.d && printf '[Service]\\nEnvironment=" + probeReport + "=" + report + "\\nExecStartPre=" + probeProgram +
			"\\n" + more + "\\n' >" + unitFolder + "/" + unit + ".service.d/probe.conf && systemctl daemon-reload && systemctl restart " + unit)
		if err := json.Unmarshal([]byte(c.root("cat "+report)), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	// The probe sees what a careless option takes.
	if got := look("PrivateDevices=yes\\nMemoryDenyWriteExecute=yes"); got["/dev/nvidia0"] == "" || got["write and run memory"] == "" {
		t.Errorf("the probe is blind: %v", got)
	}
	got := look("")
	for _, what := range append([]string{"compile in memory", "write and run memory", "lock memory", "write ~/.nightshift", "write ~/.cache", "write /tmp"}, accelerators...) {
		if why, asked := got[what]; !asked || why != "" {
			t.Errorf("%s: %q", what, why)
		}
	}
	for _, what := range []string{"write ~", "write /usr", "write /etc", "become root"} {
		if why := got[what]; !strings.Contains(why, "read-only") && !strings.Contains(why, "not permitted") && !strings.Contains(why, "denied") {
			t.Errorf("%s: %q, want a refusal", what, why)
		}
	}
}
