package hostfacts

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"os/exec"
	"regexp"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"time"

	"interlock.sh/fleet"
)

// gpus asks the tools of the vendors that are installed.
func gpus(ctx context.Context) []fleet.GPU {
	if runtime.GOOS == "darwin" {
		return parseIOReg(output(ctx, "ioreg", "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator"))
	}
	found := parseNvidia(output(ctx, "nvidia-smi", "--query-gpu=name,memory.total,memory.free,utilization.gpu", "--format=csv,noheader,nounits"))
	return append(found, parseROCm(output(ctx, "rocm-smi", "--showproductname", "--showmeminfo", "vram", "--showuse", "--json"))...)
}

func output(ctx context.Context, name string, args ...string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second // what it started may hold its output open after it was killed
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"}
	b, err := cmd.Output()
	if err != nil {
		return ""
	}
	return string(b)
}

// parseNvidia reads nvidia-smi's CSV; "[N/A]" is an unknown figure.
func parseNvidia(text string) []fleet.GPU {
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace = true
	rows, err := r.ReadAll()
	if err != nil {
		return nil
	}
	var out []fleet.GPU
	for _, row := range rows {
		if len(row) != 4 {
			continue
		}
		out = append(out, fleet.GPU{Name: row[0], MemoryTotal: mebibytes(row[1]), MemoryFree: mebibytes(row[2]), Utilization: percent(row[3])})
	}
	return out
}

func mebibytes(s string) *int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return nil
	}
	n <<= 20
	return &n
}

func percent(s string) *float64 {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil {
		return nil
	}
	return &f
}

// parseROCm reads rocm-smi's JSON: one object a card, figures as text.
func parseROCm(text string) []fleet.GPU {
	var cards map[string]map[string]string
	if json.Unmarshal([]byte(text), &cards) != nil {
		return nil
	}
	names := make([]string, 0, len(cards))
	for name := range cards {
		if strings.HasPrefix(name, "card") {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	var out []fleet.GPU
	for _, name := range names {
		c := cards[name]
		g := fleet.GPU{Name: first(c, "Card Series", "Card series", "Card Model", "Card model"), Utilization: percent(c["GPU use (%)"])}
		if total, err := strconv.ParseInt(c["VRAM Total Memory (B)"], 10, 64); err == nil {
			g.MemoryTotal = &total
			if used, err := strconv.ParseInt(c["VRAM Total Used Memory (B)"], 10, 64); err == nil {
				free := total - used
				g.MemoryFree = &free
			}
		}
		out = append(out, g)
	}
	return out
}

func first(m map[string]string, keys ...string) string {
	for _, k := range keys {
		if v := m[k]; v != "" {
			return v
		}
	}
	return "GPU"
}

var (
	ioModel = regexp.MustCompile(`"model" = "([^"]+)"`)
	ioUse   = regexp.MustCompile(`"Device Utilization %"=(\d+)`)
)

// parseIOReg reads macOS's registry. Apple's GPUs share the machine's memory: none is reported.
func parseIOReg(text string) []fleet.GPU {
	m := ioModel.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	g := fleet.GPU{Name: m[1]}
	if u := ioUse.FindStringSubmatch(text); u != nil {
		g.Utilization = percent(u[1])
	}
	return []fleet.GPU{g}
}
