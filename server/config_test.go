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
		"the defaults":                   {Config{Data: "d"}, "", ""},
		"no data":                        {Config{}, "data", "--data"},
		"loopback by name":               {Config{Data: "d", Listen: "localhost:0"}, "", ""},
		"loopback of IPv6":               {Config{Data: "d", Listen: "[::1]:0"}, "", ""},
		"no port":                        {Config{Data: "d", Listen: "127.0.0.1"}, "listen", "host:port"},
		"plain http on every address":    {Config{Data: "d", Listen: ":8090"}, "listen", "--tls-self-signed"},
		"plain http on 0.0.0.0":          {Config{Data: "d", Listen: "0.0.0.0:8090"}, "listen", "clear"},
		"plain http on a LAN":            {Config{Data: "d", Listen: "192.168.1.5:8090"}, "listen", "clear"},
		"plain http by name":             {Config{Data: "d", Listen: "fleet.example.com:80"}, "listen", "clear"},
		"plain http by choice":           {Config{Data: "d", Listen: ":8090", InsecureHTTP: true}, "", ""},
		"TLS on every address":           {Config{Data: "d", Listen: ":8090", TLSSelfSigned: true}, "", ""},
		"TLS by files on every address":  {Config{Data: "d", Listen: ":8090", TLSCert: "c", TLSKey: "k"}, "", ""},
		"a certificate without its key":  {Config{Data: "d", TLSCert: "c"}, "tls-cert", "together"},
		"a key without its certificate":  {Config{Data: "d", TLSKey: "k"}, "tls-cert", "together"},
		"two kinds of TLS":               {Config{Data: "d", TLSCert: "c", TLSKey: "k", TLSSelfSigned: true}, "tls-self-signed", "exclude"},
		"public https":                   {Config{Data: "d", PublicURL: "https://fleet.example.com"}, "", ""},
		"public https below a path":      {Config{Data: "d", PublicURL: "https://example.com/fleet/"}, "", ""},
		"public http on loopback":        {Config{Data: "d", PublicURL: "http://localhost:9000"}, "", ""},
		"public http off loopback":       {Config{Data: "d", PublicURL: "http://fleet.example.com"}, "public-url", "could be read"},
		"public http by choice":          {Config{Data: "d", PublicURL: "http://fleet.example.com", InsecureHTTP: true}, "", ""},
		"public without a scheme":        {Config{Data: "d", PublicURL: "fleet.example.com"}, "public-url", "https://"},
		"public of another scheme":       {Config{Data: "d", PublicURL: "ftp://fleet.example.com"}, "public-url", "https://"},
		"public with a query":            {Config{Data: "d", PublicURL: "https://fleet.example.com/?a=b"}, "public-url", "https://"},
		"public with a password":         {Config{Data: "d", PublicURL: "https://a:b@fleet.example.com"}, "public-url", "https://"},
		"public that is broken":          {Config{Data: "d", PublicURL: "https://[::1"}, "public-url", "https://"},
		"public with what a shell reads": {Config{Data: "d", PublicURL: "https://x;rm -rf ~"}, "public-url", "https://"},
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
