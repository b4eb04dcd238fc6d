package server

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// portOwner names the process that listens on a TCP port, as far as it can be seen from here.
func portOwner(port int) string {
	const unseen = "a process that this user may not see"
	inode := ""
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if inode == "" {
			inode = listeningInode(table, port)
		}
	}
	if inode == "" {
		return unseen
	}
	fds, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return unseen
	}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && target == "socket:["+inode+"]" {
			pid := strings.Split(fd, "/")[2]
			name, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
			if err != nil {
				return "process " + pid
			}
			return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), pid)
		}
	}
	return unseen
}

// listeningInode finds the socket that listens on port in a table of the kernel's.
func listeningInode(table string, port int) string {
	f, err := os.Open(table)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // read only
	const listening = "0A"
	for sc := bufio.NewScanner(f); sc.Scan(); {
		cols := strings.Fields(sc.Text())
		if len(cols) < 10 || cols[3] != listening {
			continue
		}
		_, hex, _ := strings.Cut(cols[1], ":")
		if n, err := strconv.ParseInt(hex, 16, 32); err == nil && int(n) == port {
			return cols[9]
		}
	}
	return ""
}
