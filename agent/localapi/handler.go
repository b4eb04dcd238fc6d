package localapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"interlock.sh/fault"
	"interlock.sh/fleet"
)

// Agent is what the handler needs of the agent.
type Agent interface {
	Status(ctx context.Context) Status
	SetOwner(mode fleet.Mode) error
	Doctor(ctx context.Context, deep bool) []Check
	Logs(deployment string, lines int) (Logs, error)
}

// Handler serves an agent.
func Handler(a Agent) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) { reply(w, a.Status(r.Context()), nil) })
	for verb, mode := range map[string]fleet.Mode{"pause": fleet.Paused, "resume": fleet.Active, "drain": fleet.Draining} {
		mux.HandleFunc("POST /"+verb, func(w http.ResponseWriter, r *http.Request) {
			err := a.SetOwner(mode)
			reply(w, a.Status(r.Context()), err)
		})
	}
	mux.HandleFunc("GET /doctor", func(w http.ResponseWriter, r *http.Request) {
		reply(w, a.Doctor(r.Context(), r.URL.Query().Get("deep") == "true"), nil)
	})
	mux.HandleFunc("GET /logs", func(w http.ResponseWriter, r *http.Request) {
		n := 50
		if s := r.URL.Query().Get("lines"); s != "" {
			var err error
			if n, err = strconv.Atoi(s); err != nil || n < 1 || n > 1000 {
				reply(w, nil, fault.New(fault.Invalid, "lines is %q; it goes from 1 to 1000", s).WithField("lines"))
				return
			}
		}
		logs, err := a.Logs(r.URL.Query().Get("deployment"), n)
		reply(w, logs, err)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		reply(w, nil, fault.New(fault.NotFound, "the agent has no %s %s", r.Method, r.URL.Path))
	})
	return mux
}

func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		e := fault.Of(err)
		w.WriteHeader(e.Code.Status())
		v = map[string]any{"error": e}
	}
	_ = json.NewEncoder(w).Encode(v) // the peer is gone: nobody is left to tell
}
