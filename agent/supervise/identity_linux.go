package supervise

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// startOf is the boot's id and the process's start time in ticks since that boot (field 22 of stat).
// It is an error for a zombie: that process has ended.
func startOf(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the program's name in parentheses and may hold spaces and parentheses.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, start = 0, 22 - 3 // fields 3 and 22 of the manual page, which counts from 1
	if len(fields) <= start {
		return "", fmt.Errorf("/proc/%d/stat has %d fields after the name, want more than %d", pid, len(fields), start)
	}
	if fields[state] == "Z" || fields[state] == "X" {
		return "", os.ErrProcessDone
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(boot)) + ":" + fields[start], nil
}
