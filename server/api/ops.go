package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Meters are the control plane's own measurements, in a registry of their own.
type Meters struct {
	Registry *prometheus.Registry
	inFlight prometheus.Gauge
	requests *prometheus.HistogramVec
}

// NewMeters registers the HTTP measurements; other parts add theirs to the Registry.
func NewMeters() *Meters {
	m := &Meters{
		Registry: prometheus.NewRegistry(),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "interlock_http_in_flight", Help: "Requests being answered, streams and long polls included."}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "interlock_http_request_seconds", Help: "Time to answer, by route and status.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 30},
		}, []string{"route", "status"}),
	}
	m.Registry.MustRegister(m.inFlight, m.requests)
	return m
}

func (m *Meters) request(r *http.Request, status int, took time.Duration) {
	pattern := r.Pattern
	if pattern == "" {
		pattern = "unknown"
	}
	m.requests.WithLabelValues(pattern, strconv.Itoa(status)).Observe(took.Seconds())
}

func (a *API) health(w http.ResponseWriter, r *http.Request) error {
	if err := a.Ready(r.Context()); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "UP", "version": a.info.Version})
	return nil
}

func (a *API) metrics(w http.ResponseWriter, r *http.Request) error {
	promhttp.HandlerFor(a.Meters.Registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}

func (a *API) openapi(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, a.doc.OpenAPI())
	return nil
}
