package updater

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/internal/testkit/tufrepo"
)

// A second `interlock update` at the same time is refused, and the first one ends well.
func TestOneSelfUpdateAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.release("1.1.0", "good")
	program := filepath.Join(t.TempDir(), "interlock")
	must(t, os.WriteFile(program, []byte("1.0.0 good"), 0o755))
	o := r.Options
	o.App = filepath.Join(t.TempDir(), "updates")
	one := Single{Path: program, Version: "1.0.0"}
	var inner error
	o.Origins = []Origin{origin(t, tufrepo.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.Contains(req.URL.Path, "/targets/") {
			_, _, inner = SelfUpdate(t.Context(), o, one)
		}
		r.repo.ServeHTTP(w, req)
	})))}
	version, fresh, err := SelfUpdate(t.Context(), o, one)
	if err != nil || !fresh || version != "1.1.0" {
		t.Fatalf("%s %v %v", version, fresh, err)
	}
	if !errors.Is(inner, fault.Conflict) || contains(inner, "another update") != nil {
		t.Errorf("the second one: %v", inner)
	}
}
