// Package hostfacts reads what a computer is and has: system, processor, memory, disk, accelerators,
// time zone, and an opaque id that differs between machines. What cannot be read stays absent; it never
// is a zero.
package hostfacts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"interlock.sh/fleet"
	"interlock.sh/internal/diskspace"
)

// gpuDeadline bounds a vendor's tool: some hang when their driver does.
const gpuDeadline = 5 * time.Second

// Collect reads the facts; disk is a folder on the disk where models are kept.
func Collect(ctx context.Context, disk string) fleet.HostFacts {
	f := fleet.HostFacts{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Zone: LocalZone().Name}
	if name, err := os.Hostname(); err == nil {
		f.Hostname = name
	}
	if info, err := host.InfoWithContext(ctx); err == nil {
		f.OSVersion = strings.TrimSpace(info.Platform + " " + info.PlatformVersion)
	}
	if infos, err := cpu.InfoWithContext(ctx); err == nil && len(infos) > 0 {
		f.CPU = infos[0].ModelName
	}
	Refresh(ctx, &f, disk)
	return f
}

// Refresh reads again what changes: memory, disk, accelerators.
func Refresh(ctx context.Context, f *fleet.HostFacts, disk string) {
	refreshHost(ctx, f, disk)
	f.GPUs = askGPUs(ctx)
}

// refreshHost reads again what costs nothing to read.
func refreshHost(ctx context.Context, f *fleet.HostFacts, disk string) {
	f.MemoryTotal, f.MemoryFree, f.DiskFree = nil, nil, nil
	if m, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		total, free := int64(m.Total), int64(m.Available)
		f.MemoryTotal, f.MemoryFree = &total, &free
	}
	if free, err := diskspace.Free(disk); err == nil {
		f.DiskFree = &free
	}
}

func askGPUs(ctx context.Context) []fleet.GPU {
	ctx, cancel := context.WithTimeout(ctx, gpuDeadline)
	defer cancel()
	return gpus(ctx)
}

// ID is an opaque name of this computer, the same until its system is installed anew, and the same for
// every user of it.
func ID(ctx context.Context) string {
	raw := systemID(ctx)
	if raw == "" {
		raw, _ = os.Hostname() // two copies of one folder still differ in most cases
	}
	sum := sha256.Sum256([]byte("interlock host\x00" + raw))
	return hex.EncodeToString(sum[:16])
}

// machineIDs are where Linux keeps the id of an installation. The ids of the board, which only root may
// read, and of the boot, which is another one after each, are not used.
var machineIDs = [...]string{"/etc/machine-id", "/var/lib/dbus/machine-id"}

func systemID(ctx context.Context) string {
	if runtime.GOOS != "linux" {
		id, err := host.HostIDWithContext(ctx)
		if err != nil {
			return ""
		}
		return id
	}
	for _, path := range machineIDs {
		b, err := os.ReadFile(path)
		if id := strings.TrimSpace(string(b)); err == nil && id != "" && id != "uninitialized" {
			return id
		}
	}
	return ""
}
