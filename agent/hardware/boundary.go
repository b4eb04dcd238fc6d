package hardware

import (
	"net/netip"
	"net/url"
	"os"
	"path/filepath"

	"interlock.sh/ai"
	"interlock.sh/fault"
)

// checkBoundary refuses a model server that is not on this machine. Prompts would cross the network to
// it, and anybody there could answer in its place.
func checkBoundary(server string, remote bool) error {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fault.New(fault.Invalid, "%s is %q, which is no plain http address", EnvServer, server).WithField(EnvServer).
			WithHint("e.g. %s=http://127.0.0.1:8080; a key belongs into %s", EnvServer, EnvServerKey)
	}
	if !remote && !local(u) {
		return fault.New(fault.Invalid, "%s is %s, and %s is not this machine: prompts would leave it", EnvServer, server, u.Hostname()).WithField(EnvServer).
			WithHint("name a server on 127.0.0.1, or set %s=1 where that network is trusted", EnvAllowRemote)
	}
	return nil
}

// local reports whether an address is this machine's own.
func local(u *url.URL) bool {
	if u.Hostname() == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback()
}

// weights is the file of a known profile in the folder of models; "" when it is not there.
func (h Home) weights(alias string) string {
	if p, ok := ai.ProfileOf(alias); ok {
		path := filepath.Join(h.Models(), p.File)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
