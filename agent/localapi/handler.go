package localapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
)

// Agent is what the handler needs of the agent.
type Agent interface {
	Status(ctx context.Context) Status
	SetOwner(mode fleet.Mode) error
	Pause(d time.Duration) error
	SetAvailability(ctx context.Context, a schedule.Availability) error
	Doctor(ctx context.Context, deep bool) []Check
	Logs(deployment string, lines int) (Logs, error)
	Restart(within time.Duration) error
}

// Handler serves an agent.
func Handler(a Agent) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) { reply(w, a.Status(r.Context()), nil) })
	for verb, mode := range map[string]fleet.Mode{"resume": fleet.Active, "drain": fleet.Draining} {
		mux.HandleFunc("POST /"+verb, func(w http.ResponseWriter, r *http.Request) {
			err := a.SetOwner(mode)
			reply(w, a.Status(r.Context()), err)
		})
	}
	mux.HandleFunc("POST /pause", func(w http.ResponseWriter, r *http.Request) {
		d, err := pauseFor(r.URL.Query().Get("minutes"))
		if err == nil {
			err = a.Pause(d)
		}
		reply(w, a.Status(r.Context()), err)
	})
	mux.HandleFunc("PUT /availability", func(w http.ResponseWriter, r *http.Request) {
		wish, err := readAvailability(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil {
			err = a.SetAvailability(r.Context(), wish)
		}
		reply(w, a.Status(r.Context()), err)
	})
	mux.HandleFunc("POST /restart", func(w http.ResponseWriter, r *http.Request) {
		var within time.Duration
		if text := r.URL.Query().Get("within"); text != "" {
			var err error
			if within, err = time.ParseDuration(text); err != nil {
				reply(w, nil, fault.New(fault.Invalid, "within is %q, which is no length of time", text).WithField("within").WithHint("for example 30m"))
				return
			}
		}
		err := a.Restart(within)
		reply(w, a.Status(r.Context()), err)
	})
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

// maxPause bounds a pause that ends by itself: what is longer is a decision about hours.
const maxPause = 7 * 24 * time.Hour

// pauseFor reads for how long to pause; none is until it is resumed.
func pauseFor(minutes string) (time.Duration, error) {
	if minutes == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(minutes)
	most := int(maxPause / time.Minute)
	if err != nil || n < 1 || n > most {
		return 0, fault.New(fault.Invalid, "minutes is %q; a pause that ends by itself lasts from 1 to %d minutes", minutes, most).
			WithField("minutes").WithHint("for longer, pause without a time, or set the hours to paused")
	}
	return time.Duration(n) * time.Minute, nil
}

// maxBody is far above the most spans that are taken.
const maxBody = 64 << 10

// readAvailability refuses a field that it does not know: a limit that the owner set and that this agent
// would not keep.
func readAvailability(body io.Reader) (schedule.Availability, error) {
	var a schedule.Availability
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		var long *http.MaxBytesError
		if errors.As(err, &long) {
			return a, fault.New(fault.TooLarge, "the hours have more than %d bytes", maxBody).WithHint("at most %d spans are taken", schedule.MaxSpans)
		}
		return a, fault.Wrap(err, fault.Malformed, "the hours cannot be read: %v", err).WithHint("is this agent older than what asked? see interlock agent status")
	}
	return a, nil
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
