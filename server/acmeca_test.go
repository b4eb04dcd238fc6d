package server_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/acme"
)

// acmeCA is an ACME authority on loopback, as RFC 8555 has it for one account: it really checks that a
// domain is the server's, at the addresses that the test gives instead of DNS. It trusts who signs a
// request, since what is tested is the other side.
type acmeCA struct {
	t      *testing.T
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	url    string
	domain string
	alpn   func() string // where the domain's https is
	plain  func() string // and its http; nil when nothing listens there

	mu       sync.Mutex
	refuse   bool
	token    string
	thumb    string // of the account's key
	status   string // of the authorization
	leaf     []byte
	contact  []string
	orders   int
	checked  []string
	problems []string
	failure  string // of the newest challenge
}

func newACMECA(t *testing.T, domain string) *acmeCA {
	t.Helper()
	ca := &acmeCA{t: t, domain: domain, token: "token-of-" + strings.ReplaceAll(domain, ".", "-")}
	var err error
	if ca.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	self := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, self, self, ca.key.Public(), ca.key)
	if err == nil {
		ca.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(ca)
	t.Cleanup(srv.Close)
	ca.url = srv.URL
	return ca
}

func (ca *acmeCA) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// ServeHTTP answers the authority's routes.
func (ca *acmeCA) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	w.Header().Set("Replay-Nonce", rand.Text())
	status, answer := http.StatusOK, any(nil)
	payload, err := ca.open(r)
	if err != nil {
		ca.problem(w, http.StatusBadRequest, "malformed", err.Error())
		return
	}
	switch r.URL.Path {
	case "/directory":
		answer = map[string]string{
			"newNonce": ca.url + "/nonce", "newAccount": ca.url + "/account", "newOrder": ca.url + "/order", "revokeCert": ca.url + "/revoke", "keyChange": ca.url + "/key",
		}
	case "/nonce":
		return
	case "/account":
		var req struct{ Contact []string }
		_ = json.Unmarshal(payload, &req)
		ca.contact = req.Contact
		w.Header().Set("Location", ca.url+"/account/1")
		status, answer = http.StatusCreated, map[string]any{"status": "valid", "contact": req.Contact}
	case "/order":
		ca.orders++
		if ca.refuse {
			ca.problem(w, http.StatusForbidden, "rejectedIdentifier", "policy forbids "+ca.domain)
			return
		}
		ca.status = acme.StatusPending
		w.Header().Set("Location", ca.url+"/order/1")
		status, answer = http.StatusCreated, ca.order()
	case "/order/1":
		answer = ca.order()
	case "/authz/1":
		answer = ca.authorization()
	case "/challenge/alpn", "/challenge/http":
		kind := strings.TrimPrefix(r.URL.Path, "/challenge/")
		if err := ca.check(kind); err != nil {
			ca.problems = append(ca.problems, kind+": "+err.Error())
			ca.failure = err.Error()
			ca.status = acme.StatusInvalid
		} else {
			ca.checked = append(ca.checked, kind)
			ca.status = acme.StatusValid
		}
		answer = map[string]any{"type": "x", "url": ca.url + r.URL.Path, "token": ca.token, "status": ca.status}
	case "/finalize":
		if err := ca.issue(payload); err != nil {
			ca.problem(w, http.StatusForbidden, "badCSR", err.Error())
			return
		}
		w.Header().Set("Location", ca.url+"/order/1")
		answer = ca.order()
	case "/certificate":
		w.Header().Set("Content-Type", "application/pem-certificate-chain")
		for _, der := range [][]byte{ca.leaf, ca.cert.Raw} {
			_ = pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: der})
		}
		return
	default:
		ca.problem(w, http.StatusNotFound, "malformed", "no "+r.URL.Path)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (ca *acmeCA) problem(w http.ResponseWriter, status int, kind, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "urn:ietf:params:acme:error:" + kind, "detail": detail, "status": status})
}

// open reads the payload of a signed request, and keeps the thumbprint of a new account's key.
func (ca *acmeCA) open(r *http.Request) ([]byte, error) {
	if r.Method != http.MethodPost {
		return nil, nil
	}
	var jws struct{ Protected, Payload string }
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&jws); err != nil {
		return nil, err
	}
	head, err := base64.RawURLEncoding.DecodeString(jws.Protected)
	if err != nil {
		return nil, err
	}
	var protected struct {
		JWK *struct{ Crv, X, Y string } `json:"jwk"`
		URL string                      `json:"url"`
	}
	if err := json.Unmarshal(head, &protected); err != nil {
		return nil, err
	}
	if protected.URL != ca.url+r.URL.Path {
		return nil, fmt.Errorf("signed for %s, sent to %s", protected.URL, r.URL.Path)
	}
	if k := protected.JWK; k != nil {
		sum := sha256.Sum256(fmt.Appendf(nil, `{"crv":%q,"kty":"EC","x":%q,"y":%q}`, k.Crv, k.X, k.Y))
		ca.thumb = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return base64.RawURLEncoding.DecodeString(jws.Payload)
}

func (ca *acmeCA) order() map[string]any {
	status := map[string]string{acme.StatusPending: acme.StatusPending, acme.StatusValid: acme.StatusReady, acme.StatusInvalid: acme.StatusInvalid}[ca.status]
	if ca.leaf != nil && ca.status == acme.StatusValid {
		status = acme.StatusValid
	}
	return map[string]any{
		"status": status, "identifiers": []map[string]string{{"type": "dns", "value": ca.domain}},
		"authorizations": []string{ca.url + "/authz/1"}, "finalize": ca.url + "/finalize", "certificate": ca.url + "/certificate",
	}
}

func (ca *acmeCA) authorization() map[string]any {
	challenge := map[string]any{"type": "tls-alpn-01", "url": ca.url + "/challenge/alpn", "token": ca.token, "status": ca.status}
	if ca.plain != nil {
		challenge = map[string]any{"type": "http-01", "url": ca.url + "/challenge/http", "token": ca.token, "status": ca.status}
	}
	if ca.status == acme.StatusInvalid {
		challenge["error"] = map[string]any{"type": "urn:ietf:params:acme:error:connection", "detail": ca.failure}
	}
	return map[string]any{"status": ca.status, "identifier": map[string]string{"type": "dns", "value": ca.domain}, "challenges": []any{challenge}}
}

// check proves that the domain is the server's: by a handshake with the protocol acme-tls/1, or by the
// file at the well-known path.
func (ca *acmeCA) check(kind string) error {
	proof := ca.token + "." + ca.thumb
	if kind == "http" {
		req, err := http.NewRequestWithContext(ca.t.Context(), http.MethodGet, "http://"+ca.plain()+"/.well-known/acme-challenge/"+ca.token, nil)
		if err != nil {
			return err
		}
		req.Host = ca.domain
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != proof {
			return fmt.Errorf("the file has %q (%d, %w), want %q", body, resp.StatusCode, err, proof)
		}
		return nil
	}
	conn, err := tls.Dial("tcp", ca.alpn(), &tls.Config{ServerName: ca.domain, NextProtos: []string{acme.ALPNProto}, InsecureSkipVerify: true}) //nolint:gosec // the proof is an extension
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // read only
	shown := conn.ConnectionState().PeerCertificates[0]
	sum := sha256.Sum256([]byte(proof))
	want, err := asn1.Marshal(sum[:])
	if err != nil {
		return err
	}
	for _, e := range shown.Extensions {
		if e.Id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}) && slices.Equal(e.Value, want) {
			return nil
		}
	}
	return errors.New("the certificate shown has no proof")
}

// issue signs what a request for a certificate asks for.
func (ca *acmeCA) issue(payload []byte) error {
	var req struct {
		CSR string `json:"csr"`
	}
	if err := json.Unmarshal(payload, &req); err != nil {
		return err
	}
	der, err := base64.RawURLEncoding.DecodeString(req.CSR)
	if err != nil {
		return err
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return err
	}
	if ca.status != acme.StatusValid || !slices.Equal(csr.DNSNames, []string{ca.domain}) {
		return fmt.Errorf("%v was not authorized", csr.DNSNames)
	}
	key, ok := csr.PublicKey.(crypto.PublicKey)
	if !ok {
		return errors.New("no key")
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(12 * time.Hour),
		DNSNames: csr.DNSNames, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	ca.leaf, err = x509.CreateCertificate(rand.Reader, leaf, ca.cert, key, ca.key)
	return err
}
