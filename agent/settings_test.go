package agent

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestTheGraceIsTheOwnersSetting(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]time.Duration{
		"": drainWithin, "30s": 30 * time.Second, "1h": time.Hour, // taken
		"0s": drainWithin, "-1m": drainWithin, "2h": drainWithin, "soon": drainWithin, "120": drainWithin, // not, and said
	} {
		var log bytes.Buffer
		a := &Agent{log: slog.New(slog.NewTextHandler(&log, nil))}
		got := a.leaveGrace(set)
		refused := set != "" && want == drainWithin
		if got != want || refused != strings.Contains(log.String(), "INTERLOCK_LEAVE_GRACE="+set) {
			t.Errorf("%q is %v, and the log %q", set, got, log.String())
		}
	}
}
