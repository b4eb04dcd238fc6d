//go:build linux

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/letsencrypt/challtestsrv"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
)

// pebble is Let's Encrypt's own test authority, with a DNS in which every name is this machine.
type pebble struct {
	directory string
	file      string         // certificate of its API
	roots     *x509.CertPool // of what it issues
}

// startPebble starts one that looks for a domain's https and http on these ports.
func startPebble(t *testing.T, httpsPort, httpPort string) *pebble {
	t.Helper()
	quiet := log.New(io.Discard, "", 0)
	resolver := "127.0.0.1:" + freePort(t)
	names, err := challtestsrv.New(challtestsrv.Config{Log: quiet, DNSAddrs: []string{resolver}})
	if err != nil {
		t.Fatal(err)
	}
	names.SetDefaultDNSIPv4("127.0.0.1")
	names.SetDefaultDNSIPv6("")
	go names.Run()
	t.Cleanup(names.Shutdown)
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")

	store := db.NewMemoryStore()
	authority := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "default"}})
	front := wfe.New(quiet, store, va.New(quiet, number(t, httpPort), number(t, httpsPort), true, resolver, store), authority, []string{"pebble.example"}, true, false, 1, 1)
	srv := httptest.NewTLSServer(front.Handler())
	t.Cleanup(srv.Close)

	p := &pebble{directory: srv.URL + wfe.DirectoryPath, file: filepath.Join(t.TempDir(), "api.pem"), roots: x509.NewCertPool()}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(p.file, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	if !p.roots.AppendCertsFromPEM(authority.GetRootCert(0).PEM()) {
		t.Fatal("pebble has no root")
	}
	return p
}

func number(t *testing.T, port string) int {
	t.Helper()
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// An independent authority issues the control plane's certificate by either challenge; a new start uses
// it without asking again.
func TestCertificatesFromPebble(t *testing.T) {
	const domain = "fleet.example.com"
	for name, byHTTP := range map[string]bool{"tls-alpn-01": false, "http-01": true} {
		t.Run(name, func(t *testing.T) {
			https, plain := freePort(t), freePort(t)
			reached := https
			if byHTTP {
				reached = freePort(t) // nobody is there: only http is left
			}
			authority := startPebble(t, reached, plain)
			args := []string{
				"--public-url", "https://" + domain, "--acme-domain", domain, "--acme-email", "ops@example.com", "--acme-directory", authority.directory,
			}
			if byHTTP {
				args = append(args, "--http-listen", "127.0.0.1:"+plain)
			}
			data := filepath.Join(tempDir(t), "data")
			run := func() *process {
				argv := append([]string{program, "serve", "--data", data, "--listen", "127.0.0.1:" + https}, args...)
				return start(t, "serve", []string{"HOME=" + filepath.Dir(data), "PATH=" + os.Getenv("PATH"), "SSL_CERT_FILE=" + authority.file}, argv...)
			}
			serve := run()
			web := &http.Client{Transport: &http.Transport{
				DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+https)
				},
				TLSClientConfig: &tls.Config{RootCAs: authority.roots},
			}}
			t.Cleanup(web.CloseIdleConnections)
			healthy := func(p *process) (serial string) {
				until(t, "health over a trusted connection", func() error {
					if p.ended() {
						t.Fatalf("the server ended: %s", p.out.tail(10))
					}
					resp, err := web.Get("https://" + domain + "/q/health")
					if err != nil {
						return err
					}
					defer resp.Body.Close()
					if resp.StatusCode != http.StatusOK {
						return fmt.Errorf("status %d", resp.StatusCode)
					}
					if len(resp.TLS.VerifiedChains) == 0 {
						return errors.New("no chain")
					}
					serial = resp.TLS.PeerCertificates[0].SerialNumber.String()
					return nil
				})
				return serial
			}
			first := healthy(serve)
			serve.stop()
			web.CloseIdleConnections()
			if again := healthy(run()); again != first {
				t.Errorf("a new start has certificate %s, the first had %s", again, first)
			}
		})
	}
}
