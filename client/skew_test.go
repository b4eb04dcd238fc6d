package client_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

var truth = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// A refused credential is said together with a clock that is off; other refusals are not about time.
func TestAClockThatIsOffIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		local  time.Duration // of this machine's clock
		status int
		want   string // "" is no word of the clock
	}{
		"20 min behind":             {-20 * time.Minute, 401, "this machine's clock is 20 min behind the control plane's"},
		"20 min ahead":              {20 * time.Minute, 401, "this machine's clock is 20 min ahead of the control plane's"},
		"3 h behind":                {-3 * time.Hour, 401, "3 h behind"},
		"years behind":              {-1000 * 24 * time.Hour, 401, "1000 days behind"},
		"a minute behind":           {-time.Minute, 401, ""},
		"right":                     {0, 401, ""},
		"behind, and nothing found": {-20 * time.Minute, 404, ""},
		"behind, and no right":      {-20 * time.Minute, 403, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, srv := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", truth.Format(http.TimeFormat))
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, `{"error":{"message":"no","hint":"log in"}}`)
			})
			cl := newClient(t, client.Options{BaseURL: srv.URL, Clock: clock.NewFake(truth.Add(c.local))})
			if words := cl.ClockWords(); words != "" {
				t.Errorf("before the first answer: %q", words)
			}
			err := cl.Do(t.Context(), "GET", "/", nil, nil)
			if err == nil || !strings.Contains(err.Error(), "log in") || strings.Contains(err.Error(), "clock") != (c.want != "") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if off := c.local.Abs() > client.ClockLimit; off != (cl.ClockWords() != "") {
				t.Errorf("words %q", cl.ClockWords())
			}
		})
	}
}

// authority signs certificates of 127.0.0.1.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.key = a.newKey()
	self := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: truth.AddDate(-20, 0, 0), NotAfter: truth.AddDate(20, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = a.sign(self, self, &a.key.PublicKey)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) sign(c, parent *x509.Certificate, key *ecdsa.PublicKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key, a.key)
	if err == nil {
		c, err = x509.ParseCertificate(der)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// serve answers on 127.0.0.1 with a certificate for host and the server's time in every answer.
func (a *authority) serve(host string, from, to, now time.Time) string {
	key := a.newKey()
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: to, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if ip := net.ParseIP(host); ip != nil {
		leaf.IPAddresses = []net.IP{ip}
	} else {
		leaf.DNSNames = []string{host}
	}
	leaf = a.sign(leaf, a.cert, &key.PublicKey)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			a.t.Error("the credential went over a connection that was not trusted")
		}
		w.Header().Set("Date", now.Format(http.TimeFormat))
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}}}
	srv.StartTLS()
	a.t.Cleanup(srv.Close)
	return srv.URL
}

// A certificate that is out of date here: by its own clock the server tells whose fault that is.
func TestACertificateThatIsOutOfDate(t *testing.T) {
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		host     string
		from, to time.Time
		server   time.Time // its clock
		local    time.Time // ours
		want     string
		clock    bool
	}{
		"our clock is behind":          {"127.0.0.1", truth.Add(-day), truth.Add(90 * day), truth, truth.Add(-3 * day), "this machine's clock is 3 days behind the control plane's, so its certificate seems out of date", true},
		"20 min, and it is brand-new":  {"127.0.0.1", truth.Add(-time.Minute), truth.Add(90 * day), truth, truth.Add(-20 * time.Minute), "this machine's clock is 20 min behind", true},
		"our clock is ahead":           {"127.0.0.1", truth.Add(-day), truth.Add(90 * day), truth, truth.Add(100 * day), "100 days ahead of", true},
		"the battery is empty":         {"127.0.0.1", truth.Add(-day), truth.Add(90 * day), truth, time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC), "days behind", true},
		"it expired":                   {"127.0.0.1", truth.Add(-90 * day), truth.Add(-day), truth, truth, "its certificate expired at 2026-04-30 12:00:00 UTC", false},
		"it expired, both clocks off":  {"127.0.0.1", truth.Add(-90 * day), truth.Add(-day), truth.Add(9 * day), truth, "its certificate expired", false},
		"it begins later":              {"127.0.0.1", truth.Add(day), truth.Add(90 * day), truth, truth, "its certificate is valid from 2026-05-02 12:00:00 on", false},
		"somebody else's, out of date": {"portal.lan", truth.Add(-day), truth.Add(90 * day), truth, truth.Add(100 * day), "its certificate expired", false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t)
			roots := x509.NewCertPool()
			roots.AddCert(a.cert)
			cl := newClient(t, client.Options{BaseURL: a.serve(c.host, c.from, c.to, c.server), Credential: "secret", Clock: clock.NewFake(c.local)})
			cl.Trust(roots)
			err := cl.Do(t.Context(), "GET", "/", nil, nil)
			f := wantCode(t, err, fault.Unavailable, c.want)
			if _, named := f.Details["clockSkewSeconds"]; named != c.clock {
				t.Errorf("details %v", f.Details)
			}
			if c.clock != (cl.ClockWords() != "") {
				t.Errorf("words %q", cl.ClockWords())
			}
		})
	}
}
