package pages

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"interlock.sh/tasks"
	"interlock.sh/tui/text"
)

// journalLine is one line of a journal as people read it.
type journalLine struct {
	at     time.Duration // since the first entry
	kind   string
	words  string
	failed bool
}

// readJournal turns entries into lines: deltas in a row become one, each line of a log its own.
func readJournal(entries []tasks.Entry, names map[string]string) []journalLine {
	var out []journalLine
	var start time.Time
	deltas, bytes := 0, int64(0)
	for i, e := range entries {
		if i == 0 {
			start = e.At
		}
		line := journalLine{at: e.At.Sub(start), kind: text.Clean(string(e.Kind))}
		if e.Kind == tasks.EntryDelta {
			var d tasks.DeltaData
			if json.Unmarshal(e.Data, &d) == nil {
				bytes += int64(len(d.Text))
			}
			deltas++
			line.words = fmt.Sprintf("%s, %s", text.Count(deltas, "piece", "pieces"), text.Bytes(&bytes))
			if deltas > 1 {
				line.at = out[len(out)-1].at
				out[len(out)-1] = line
			} else {
				out = append(out, line)
			}
			continue
		}
		deltas, bytes = 0, 0
		switch e.Kind {
		case tasks.EntryAttemptLost, tasks.EntryAttemptFailed, tasks.EntryFailed, tasks.EntryExpired, tasks.EntryUnknown:
			line.failed = true
		}
		if e.Kind == tasks.EntryLog {
			out = append(out, logLines(line, e.Data)...)
			continue
		}
		line.words = entryWords(e, names)
		out = append(out, line)
	}
	return out
}

func logLines(line journalLine, data json.RawMessage) []journalLine {
	var d struct {
		Lines []tasks.LogLine `json:"lines"`
	}
	if json.Unmarshal(data, &d) != nil || len(d.Lines) == 0 {
		line.words = text.Clean(string(data))
		return []journalLine{line}
	}
	var out []journalLine
	for _, l := range d.Lines {
		for _, s := range text.Lines(l.Line) {
			one := line
			one.words, one.failed = s, l.Level == "error"
			out = append(out, one)
		}
	}
	return out
}

// entryWords reads the known fields of an entry's data, and falls back to the data as it is.
func entryWords(e tasks.Entry, names map[string]string) string {
	var d struct {
		WorkerID string   `json:"workerId"`
		Number   int      `json:"number"`
		Percent  *float64 `json:"percent"`
		Message  string   `json:"message"`
		Code     string   `json:"code"`
		Reason   string   `json:"reason"`
		Error    *tasks.Failure
	}
	if len(e.Data) == 0 || string(e.Data) == "null" || string(e.Data) == "{}" {
		return ""
	}
	if json.Unmarshal(e.Data, &d) != nil {
		return text.Clean(string(e.Data))
	}
	if d.Error != nil {
		d.Code, d.Message = d.Error.Code, d.Error.Message
	}
	var words []string
	if d.WorkerID != "" {
		words = append(words, "by "+workerName(d.WorkerID, names))
	}
	if d.Number > 0 {
		words = append(words, fmt.Sprintf("attempt %d", d.Number))
	}
	if d.Percent != nil {
		words = append(words, fmt.Sprintf("%.0f%%", *d.Percent))
	}
	if d.Code != "" {
		words = append(words, text.Clean(d.Code))
	}
	for _, s := range []string{d.Message, d.Reason} {
		if s != "" {
			words = append(words, text.Clean(s))
		}
	}
	if len(words) == 0 {
		return text.Clean(string(e.Data))
	}
	return strings.Join(words, ", ")
}
