package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
	kit "interlock.sh/internal/testkit/plane"
	"interlock.sh/server"
)

// leaf is the certificate that the server shows in a fresh handshake.
func leaf(t *testing.T, p *kit.Plane) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(p.URL, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it is looked at below
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // read only
	return conn.ConnectionState().PeerCertificates[0]
}

func pinOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return "sha256//" + base64.StdEncoding.EncodeToString(sum[:])
}

func TestSelfSigned(t *testing.T) {
	fake := clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	p := kit.Start(t, kit.Options{Clock: fake, Change: func(c *server.Config) {
		c.TLSSelfSigned, c.PublicURL = true, "https://fleet.home.arpa:8443"
	}})
	if !strings.HasPrefix(p.URL, "https://") || p.Pin == "" {
		t.Fatal(p.URL, p.Pin)
	}
	first := leaf(t, p)
	if pinOf(first) != p.Pin {
		t.Errorf("the pin is %s, the key's %s", p.Pin, pinOf(first))
	}
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "fleet.home.arpa"} {
		if err := first.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	authority, err := os.ReadFile(filepath.Join(p.Data, "tls", "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatal("ca.pem has no certificate")
	}
	if _, err := first.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost", CurrentTime: fake.Now()}); err != nil {
		t.Errorf("the certificate is not of its authority: %v", err)
	}
	for _, secret := range []string{"ca.key", "server.key"} {
		if info, err := os.Stat(filepath.Join(p.Data, "tls", secret)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", secret, info.Mode(), err)
		}
	}
	g, err := p.Owner.RegisterGroup(t.Context(), fleet.NewGroupRequest{Name: "models"})
	if err != nil || !strings.Contains(g.Keys[0].Line, p.Pin) || !strings.Contains(g.Keys[0].Line, "https://fleet.home.arpa:8443/") {
		t.Errorf("the line carries no pin: %q %v", g.Keys[0].Line, err)
	}
	wrong := "sha256//" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	for name, pin := range map[string]string{"a wrong pin": wrong, "no pin": ""} {
		c, err := client.New(client.Options{BaseURL: p.URL, Credential: p.Token, Pin: pin})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Whoami(t.Context()); err == nil {
			t.Errorf("%s is good enough", name)
		}
		c.Close()
	}

	fake.Advance(370 * 24 * time.Hour) // less than 30 days are left
	second := leaf(t, p)
	if !second.NotAfter.After(first.NotAfter) || pinOf(second) != p.Pin {
		t.Errorf("renewed until %v, pin %s", second.NotAfter, pinOf(second))
	}
	if again := leaf(t, p); again.SerialNumber.Cmp(second.SerialNumber) != 0 {
		t.Error("each handshake makes a new certificate")
	}
	before := p.Pin
	p.Stop()
	p.Again()
	if p.Pin != before {
		t.Errorf("the pin changed with a restart: %s, then %s", before, p.Pin)
	}
	if _, err := p.Owner.Whoami(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestADamagedKeyIsNotReplaced(t *testing.T) {
	p := kit.Start(t, kit.Options{Change: func(c *server.Config) { c.TLSSelfSigned = true }})
	p.Stop()
	path := filepath.Join(p.Data, "tls", "server.key")
	if err := os.WriteFile(path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if e := refuse(t, server.Config{Data: p.Data, TLSSelfSigned: true}); e.Code != fault.Invalid || !strings.Contains(e.Message, path) || !strings.Contains(e.Hint, "pinned") {
		t.Errorf("%v", e)
	}
}

func TestTLSByFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool := writePair(t, cert, key)
	p := kit.Start(t, kit.Options{
		Change: func(c *server.Config) { c.TLSCert, c.TLSKey = cert, key },
		Client: func(o *client.Options) { o.Pin = pinOf(readCert(t, cert)) },
	})
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	resp, err := hc.Get(p.URL + "/q/health")
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	hc.CloseIdleConnections()
	if p.Pin != "" {
		t.Errorf("a certificate of an authority has the pin %s", p.Pin)
	}
	if _, err := tls.Dial("tcp", strings.TrimPrefix(p.URL, "https://"), &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11}); err == nil { //nolint:gosec // that is the question
		t.Error("TLS 1.1 is spoken")
	}
	plain, err := http.Get(strings.Replace(p.URL, "https://", "http://", 1) + "/q/health")
	if err == nil {
		_ = plain.Body.Close()
		if plain.StatusCode != http.StatusBadRequest {
			t.Errorf("plain http on the TLS port: %d", plain.StatusCode)
		}
	}
	for name, c := range map[string]server.Config{
		"missing":     {TLSCert: filepath.Join(dir, "nothing"), TLSKey: key},
		"exchanged":   {TLSCert: key, TLSKey: cert},
		"not of each": {TLSCert: cert, TLSKey: otherKey(t, dir)},
	} {
		c.Data = filepath.Join(t.TempDir(), "data")
		if e := refuse(t, c); e.Code != fault.Invalid || e.Field != "tls-cert" || !strings.Contains(e.Message, c.TLSCert) {
			t.Errorf("%s: %v", name, e)
		}
	}
}

func otherKey(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "other.pem")
	writePair(t, filepath.Join(dir, "unused.pem"), path)
	return path
}

func writePair(t *testing.T, certPath, keyPath string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certPath: {Type: "CERTIFICATE", Bytes: der}, keyPath: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AddCert(readCert(t, certPath))
	return pool
}

func readCert(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
