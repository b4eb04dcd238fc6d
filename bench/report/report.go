// Package report turns measurements into the Markdown table of the documentation, with the facts of the
// machine that they were taken on. It measures nothing.
package report

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// Row is one measurement against its bound.
type Row struct {
	What     string
	Measured string
	Bound    string
	OK       bool
}

func (r Row) verdict() string {
	if r.OK {
		return "holds"
	}
	return "**missed**"
}

// Header says when, where and how the rows came to be.
type Header struct {
	At      time.Time
	Command string
	Version string // of the programs
	Server  string // the llama-server and its model
}

// Write prints the table.
func Write(w io.Writer, h Header, rows []Row) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s with `%s`, %s.\n", h.At.UTC().Format("2006-01-02 15:04 UTC"), h.Command, h.Version)
	fmt.Fprintf(&b, "Machine: %s.\n%s.\n\n", machine(), h.Server)
	b.WriteString("| what | measured | bound | |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.What, r.Measured, r.Bound, r.verdict())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// machine is the processor, the memory and the load before; what the system does not tell is left out.
func machine() string {
	parts := []string{fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())}
	if v := field("/proc/cpuinfo", "model name"); v != "" {
		parts = append(parts, v)
	}
	var kb int64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%d kB", &kb); err == nil {
		parts = append(parts, fmt.Sprintf("%.1f GB of memory", float64(kb)*1024/1e9))
	}
	if v, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		parts = append(parts, "Linux "+strings.TrimSpace(string(v)))
	}
	return strings.Join(parts, ", ")
}

// field is the first value of a name in a file of "name : value" lines.
func field(path, name string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
