package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"interlock.sh/server/fleet"
	"interlock.sh/server/tasks"
)

// Meters are the control plane's own measurements, in a registry of their own. No series has the name of
// a project, a machine or a person: every project's metrics key reads them all, and beside them the
// census of its own project.
type Meters struct {
	Registry *prometheus.Registry
	inFlight prometheus.Gauge
	streams  prometheus.Gauge
	parked   prometheus.Gauge
	requests *prometheus.HistogramVec
}

// NewMeters registers the measurements of HTTP and of the process; other parts add theirs to the Registry.
func NewMeters() *Meters {
	m := &Meters{
		Registry: prometheus.NewRegistry(),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "interlock_http_in_flight", Help: "Requests being answered, streams and long polls included."}),
		streams:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "interlock_http_streams", Help: "Open event streams."}),
		parked:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "interlock_http_parked_claims", Help: "Claims that wait for work."}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "interlock_http_request_seconds", Help: "Time to answer, by route and status.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 30},
		}, []string{"route", "status"}),
	}
	m.Registry.MustRegister(m.inFlight, m.streams, m.parked, m.requests,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// censusOf is what is counted in the store when somebody asks: a project's live tasks and its machines.
func (a *API) censusOf(project string) prometheus.Gatherer {
	r := prometheus.NewRegistry()
	r.MustRegister(&census{
		tasks: a.Tasks, fleet: a.Fleet, project: project,
		taskDesc:    prometheus.NewDesc("interlock_tasks", "The project's live tasks by state.", []string{"state"}, nil),
		machineDesc: prometheus.NewDesc("interlock_machines", "The project's enrolled machines, by whether they were seen lately.", []string{"state"}, nil),
	})
	return r
}

func (m *Meters) request(r *http.Request, status int, took time.Duration) {
	pattern := r.Pattern
	if pattern == "" || pattern == "/" {
		pattern = "unknown"
	}
	m.requests.WithLabelValues(pattern, strconv.Itoa(status)).Observe(took.Seconds())
}

// census collects what is counted in the store. A count that fails is left out of that scrape.
type census struct {
	tasks       *servertasks.Service
	fleet       *serverfleet.Service
	project     string
	taskDesc    *prometheus.Desc
	machineDesc *prometheus.Desc
}

const censusLimit = 5 * time.Second

// Describe and Collect make a census a collector of Prometheus.
func (c *census) Describe(ch chan<- *prometheus.Desc) { ch <- c.taskDesc; ch <- c.machineDesc }

// Collect counts once a scrape.
func (c *census) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), censusLimit)
	defer cancel()
	counts, err := c.tasks.Census(ctx, c.project)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.taskDesc, err)
	} else {
		for state, n := range counts {
			ch <- prometheus.MustNewConstMetric(c.taskDesc, prometheus.GaugeValue, float64(n), string(state))
		}
	}
	online, offline, err := c.fleet.Census(ctx, c.project)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.machineDesc, err)
		return
	}
	ch <- prometheus.MustNewConstMetric(c.machineDesc, prometheus.GaugeValue, float64(online), "online")
	ch <- prometheus.MustNewConstMetric(c.machineDesc, prometheus.GaugeValue, float64(offline), "offline")
}
