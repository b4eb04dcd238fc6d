package client

import (
	"net/http"
	"net/url"
	"strings"

	"interlock.sh/fault"
)

// isPortal reports whether an answer looks like a network's own login page: a page with status 200 where
// data was asked for, a redirect to another host, or the status that exists for it.
func isPortal(resp *http.Response) bool {
	switch {
	case resp.StatusCode == http.StatusNetworkAuthenticationRequired:
		return true
	case resp.StatusCode < 300:
		return isHTML(resp.Header)
	case resp.StatusCode < 400:
		return elsewhere(resp) != ""
	}
	return false
}

// elsewhere is the host that a redirect leads to, when it is another one than was asked.
func elsewhere(resp *http.Response) string {
	to, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || to.Hostname() == "" || resp.Request == nil || strings.EqualFold(to.Hostname(), resp.Request.URL.Hostname()) {
		return ""
	}
	return to.Host
}

// portal is the fault for the page of a captive portal. Waiting helps as soon as somebody has signed in.
func portal(resp *http.Response, base string, status *StatusError) *fault.Error {
	f := fault.Wrap(status, fault.CaptivePortal, "a login page answered instead of %s (captive portal?)", base)
	if to := elsewhere(resp); to != "" {
		return f.With("redirectsTo", to).
			WithHint("it redirects to %s: sign in to this network there, and the rest goes on by itself; if that is the server's own new address, use it", to)
	}
	return f.WithHint("sign in to this network in a browser, and the rest goes on by itself; else check the address")
}
