package client_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/tasks"
)

// Every call tells the page of a captive portal from an answer, whatever it expects; the page of a proxy
// that has lost its server is no portal.
func TestACaptivePortalIsNoAnswer(t *testing.T) {
	pages := map[string]http.HandlerFunc{
		"a page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte("<html>Welcome to Hotel Wi-Fi"))
		},
		"a redirect to its own host": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://login.hotel.example/?to="+url.QueryEscape(r.URL.String()), http.StatusFound)
		},
		"the status for it": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusNetworkAuthenticationRequired)
		},
	}
	calls := map[string]func(*client.Client) error{
		"with an answer": func(c *client.Client) error {
			_, err := c.Whoami(t.Context())
			return err
		},
		"without one": func(c *client.Client) error {
			return c.ReportProgress(t.Context(), tasks.ProgressReport{})
		},
		"a heartbeat": func(c *client.Client) error {
			_, err := c.Heartbeat(t.Context(), fleet.Heartbeat{})
			return err
		},
		"a stream": func(c *client.Client) error {
			s, err := c.Stream(t.Context(), "/api/events", "")
			if err == nil {
				_ = s.Close()
			}
			return err
		},
	}
	for page, show := range pages {
		for call, make := range calls {
			t.Run(page+", "+call, func(t *testing.T) {
				c, srv := serve(t, show)
				err := make(c)
				f := wantCode(t, err, fault.CaptivePortal, "a login page answered instead of "+srv.URL+" (captive portal?)", "sign in")
				if !client.Transient(err) {
					t.Error("it does not go on by itself")
				}
				if strings.Contains(page, "redirect") != (f.Details["redirectsTo"] == "login.hotel.example") {
					t.Errorf("details %v", f.Details)
				}
			})
		}
	}
}

// A call that may be repeated goes on by itself once somebody has signed in.
func TestACallOutlastsACaptivePortal(t *testing.T) {
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 4 {
			w.Header().Set("Content-Type", "text/html")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	t.Cleanup(srv.Close)
	c := newClient(t, client.Options{BaseURL: srv.URL})
	var out struct{ OK bool }
	if err := c.Do(t.Context(), "GET", "/x", nil, &out, client.WithRetry(0)); err != nil || !out.OK || asked.Load() != 4 {
		t.Errorf("%+v after %d tries: %v", out, asked.Load(), err)
	}
}
