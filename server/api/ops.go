package api

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

type healthy struct {
	Status  string `json:"status" enum:"UP"`
	Version string `json:"version"`
}

func (a *API) health(w http.ResponseWriter, r *http.Request) error {
	if err := a.Ready(r.Context()); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, healthy{Status: "UP", Version: a.info.Version})
	return nil
}

func (a *API) metrics(w http.ResponseWriter, r *http.Request) error {
	all := prometheus.Gatherers{a.Meters.Registry, a.censusOf(caller(r.Context()).Project)}
	promhttp.HandlerFor(all, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
	return nil
}

func (a *API) openapi(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, a.doc.OpenAPI())
	return nil
}
