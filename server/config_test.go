package server

import (
	"strings"
	"testing"

	"interlock.sh/fault"
)

func TestConfig(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		field  string // "" is taken
		says   string
	}{
		"the defaults":                      {Config{Data: "d"}, "", ""},
		"no data":                           {Config{}, "data", "--data"},
		"loopback by name":                  {Config{Data: "d", Listen: "localhost:0"}, "", ""},
		"loopback of IPv6":                  {Config{Data: "d", Listen: "[::1]:0"}, "", ""},
		"no port":                           {Config{Data: "d", Listen: "127.0.0.1"}, "listen", "host:port"},
		"plain http on every address":       {Config{Data: "d", Listen: ":8090"}, "listen", "--tls-self-signed"},
		"plain http on 0.0.0.0":             {Config{Data: "d", Listen: "0.0.0.0:8090"}, "listen", "clear"},
		"plain http on a LAN":               {Config{Data: "d", Listen: "192.168.1.5:8090"}, "listen", "clear"},
		"plain http by name":                {Config{Data: "d", Listen: "fleet.example.com:80"}, "listen", "clear"},
		"plain http by choice":              {Config{Data: "d", Listen: ":8090", InsecureHTTP: true}, "", ""},
		"TLS on every address":              {Config{Data: "d", Listen: ":8090", TLSSelfSigned: true}, "", ""},
		"TLS by files on every address":     {Config{Data: "d", Listen: ":8090", TLSCert: "c", TLSKey: "k"}, "", ""},
		"a certificate without its key":     {Config{Data: "d", TLSCert: "c"}, "tls-cert", "together"},
		"a key without its certificate":     {Config{Data: "d", TLSKey: "k"}, "tls-cert", "together"},
		"two kinds of TLS":                  {Config{Data: "d", TLSCert: "c", TLSKey: "k", TLSSelfSigned: true}, "tls-self-signed", "exclude"},
		"an authority":                      {Config{Data: "d", Listen: ":443", ACMEDomains: []string{"Fleet.example.com."}, PublicURL: "https://fleet.example.com"}, "", ""},
		"several domains":                   {Config{Data: "d", ACMEDomains: []string{"a.example.com", "b.example.com"}, PublicURL: "https://b.example.com:8443"}, "", ""},
		"an authority beside a certificate": {Config{Data: "d", ACMEDomains: []string{"a.example.com"}, TLSCert: "c", TLSKey: "k"}, "acme-domain", "excludes"},
		"an authority beside one's own":     {Config{Data: "d", ACMEDomains: []string{"a.example.com"}, TLSSelfSigned: true}, "acme-domain", "excludes"},
		"an authority for no public URL":    {Config{Data: "d", ACMEDomains: []string{"a.example.com"}}, "public-url", "--public-url https://a.example.com"},
		"an authority for another URL":      {Config{Data: "d", ACMEDomains: []string{"a.example.com"}, PublicURL: "https://b.example.com"}, "public-url", "a.example.com"},
		"an authority for plain http":       {Config{Data: "d", ACMEDomains: []string{"a.example.com"}, PublicURL: "http://a.example.com", InsecureHTTP: true}, "public-url", "https"},
		"a certificate for an address":      {Config{Data: "d", ACMEDomains: []string{"192.0.2.1"}, PublicURL: "https://192.0.2.1"}, "acme-domain", "--tls-self-signed"},
		"a certificate for a wildcard":      {Config{Data: "d", ACMEDomains: []string{"*.example.com"}}, "acme-domain", "DNS challenge"},
		"a certificate for a bare name":     {Config{Data: "d", ACMEDomains: []string{"fleet"}}, "acme-domain", "no domain name"},
		"a certificate for a URL":           {Config{Data: "d", ACMEDomains: []string{"https://a.example.com"}}, "acme-domain", "without scheme"},
		"a certificate for a port":          {Config{Data: "d", ACMEDomains: []string{"a.example.com:443"}}, "acme-domain", "without scheme"},
		"a certificate for Unicode":         {Config{Data: "d", ACMEDomains: []string{"bücher.example"}}, "acme-domain", "xn--"},
		"a certificate for an empty label":  {Config{Data: "d", ACMEDomains: []string{"a..example"}}, "acme-domain", "no domain name"},
		"an email without a domain":         {Config{Data: "d", ACMEEmail: "a@example.com"}, "acme-email", "--acme-domain"},
		"a directory without a domain":      {Config{Data: "d", ACMEDirectory: "https://ca/dir"}, "acme-directory", "--acme-domain"},
		"a directory in the clear":          {Config{Data: "d", ACMEDomains: []string{"a.example.com"}, PublicURL: "https://a.example.com", ACMEDirectory: "http://ca.internal/dir"}, "acme-directory", "https"},
		"http without https":                {Config{Data: "d", HTTPListen: ":80"}, "http-listen", "--acme-domain"},
		"http nowhere":                      {Config{Data: "d", TLSSelfSigned: true, HTTPListen: "80"}, "http-listen", "host:port"},
		"http beside one's own authority":   {Config{Data: "d", TLSSelfSigned: true, HTTPListen: ":80"}, "", ""},
		"public https":                      {Config{Data: "d", PublicURL: "https://fleet.example.com"}, "", ""},
		"public https below a path":         {Config{Data: "d", PublicURL: "https://example.com/fleet/"}, "", ""},
		"public http on loopback":           {Config{Data: "d", PublicURL: "http://localhost:9000"}, "", ""},
		"public http off loopback":          {Config{Data: "d", PublicURL: "http://fleet.example.com"}, "public-url", "could be read"},
		"public http by choice":             {Config{Data: "d", PublicURL: "http://fleet.example.com", InsecureHTTP: true}, "", ""},
		"public without a scheme":           {Config{Data: "d", PublicURL: "fleet.example.com"}, "public-url", "https://"},
		"public of another scheme":          {Config{Data: "d", PublicURL: "ftp://fleet.example.com"}, "public-url", "https://"},
		"public with a query":               {Config{Data: "d", PublicURL: "https://fleet.example.com/?a=b"}, "public-url", "https://"},
		"public with a password":            {Config{Data: "d", PublicURL: "https://a:b@fleet.example.com"}, "public-url", "https://"},
		"public that is broken":             {Config{Data: "d", PublicURL: "https://[::1"}, "public-url", "https://"},
		"public with what a shell reads":    {Config{Data: "d", PublicURL: "https://x;rm -rf ~"}, "public-url", "https://"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.config.normalize()
			if c.field == "" {
				if err != nil {
					t.Error(err)
				}
				if strings.HasSuffix(c.config.PublicURL, "/") {
					t.Errorf("public URL %q", c.config.PublicURL)
				}
				return
			}
			if err == nil {
				t.Fatal("taken")
			}
			if e := fault.Of(err); e.Code != fault.Invalid || e.Field != c.field || !strings.Contains(e.Error(), c.says) {
				t.Errorf("%v (field %q); want field %q saying %q", err, e.Field, c.field, c.says)
			}
		})
	}
}
