package client

import (
	"crypto/x509"
	"net/http"
)

// Trust makes the client trust these authorities instead of the machine's.
func (c *Client) Trust(roots *x509.CertPool) {
	c.http.Transport.(*http.Transport).TLSClientConfig.RootCAs = roots
}
