package server

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
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/internal/clock"
)

const (
	leafLife    = 397 * 24 * time.Hour // what browsers accept
	renewBefore = 30 * 24 * time.Hour
	caLife      = 10 * 365 * 24 * time.Hour
)

// tls is the server's TLS configuration with the pin of a self-signed key; both are empty for http.
func (c *Config) tls() (*tls.Config, string, error) {
	switch {
	case c.TLSSelfSigned:
		a := &authority{dir: filepath.Join(c.Data, "tls"), hosts: c.hosts(), clock: c.Clock}
		pin, err := a.open()
		if err != nil {
			return nil, "", err
		}
		return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: a.certificate}, pin, nil
	case c.TLSCert != "":
		cert, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			return nil, "", fault.Wrap(err, fault.Invalid, "--tls-cert %s with --tls-key %s: %v", c.TLSCert, c.TLSKey, err).WithField("tls-cert")
		}
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}, "", nil
	}
	return nil, "", nil
}

// hosts are the names that a self-signed certificate is for.
func (c *Config) hosts() []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	if u, err := url.Parse(c.PublicURL); err == nil && u.Hostname() != "" {
		hosts = append(hosts, u.Hostname())
	}
	if h, _, err := net.SplitHostPort(c.Listen); err == nil && h != "" {
		hosts = append(hosts, h)
	}
	return hosts
}

// authority is a certificate authority of the server's own, for a home or lab network. The leaf's key
// is made once and survives renewals: machines pin it.
type authority struct {
	dir   string
	hosts []string
	clock clock.Clock

	mu     sync.Mutex
	ca     *x509.Certificate
	caKey  *ecdsa.PrivateKey
	key    *ecdsa.PrivateKey
	leaf   *tls.Certificate
	expiry time.Time
}

// open loads or makes the keys and returns the pin of the leaf's key in curl's form.
func (a *authority) open() (string, error) {
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return "", fmt.Errorf("make %s: %w", a.dir, err)
	}
	var err error
	if a.caKey, err = loadKey(filepath.Join(a.dir, "ca.key")); err != nil {
		return "", err
	}
	if a.key, err = loadKey(filepath.Join(a.dir, "server.key")); err != nil {
		return "", err
	}
	if a.ca, err = a.loadCA(); err != nil {
		return "", err
	}
	spki, err := x509.MarshalPKIXPublicKey(a.key.Public())
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(spki)
	if _, err := a.certificate(nil); err != nil {
		return "", err
	}
	return "sha256//" + base64.StdEncoding.EncodeToString(sum[:]), nil
}

// certificate is the leaf for a handshake, made again before it expires.
func (a *authority) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	if a.leaf != nil && now.Add(renewBefore).Before(a.expiry) {
		return a.leaf, nil
	}
	t := template(now, leafLife, "Interlock control plane")
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	for _, h := range a.hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.ca, a.key.Public(), a.caKey)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	a.leaf, a.expiry = &tls.Certificate{Certificate: [][]byte{der, a.ca.Raw}, PrivateKey: a.key}, t.NotAfter
	return a.leaf, nil
}

func (a *authority) loadCA() (*x509.Certificate, error) {
	path := filepath.Join(a.dir, "ca.pem")
	b, err := os.ReadFile(path)
	if err == nil {
		block, _ := pem.Decode(b)
		if block == nil {
			return nil, damaged(path, errors.New("no PEM block"))
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, damaged(path, err)
		}
		return ca, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	t := template(a.clock.Now(), caLife, "Interlock authority of this server")
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, a.caKey.Public(), a.caKey)
	if err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	if err := atomicfile.Write(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func template(now time.Time, life time.Duration, name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // crypto/rand never fails
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life),
	}
}

// loadKey reads a private key, or makes it with mode 0600.
func loadKey(path string) (*ecdsa.PrivateKey, error) {
	b, err := os.ReadFile(path)
	if err == nil {
		block, _ := pem.Decode(b)
		if block == nil {
			return nil, damaged(path, errors.New("no PEM block"))
		}
		key, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			return nil, damaged(path, err)
		}
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return key, atomicfile.Write(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

func damaged(path string, err error) error {
	return fault.Wrap(err, fault.Invalid, "%s is damaged: %v", path, err).
		WithHint("restore it; without it every machine that pinned this server must enroll again")
}
