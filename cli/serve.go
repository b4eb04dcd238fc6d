package cli

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"

	"github.com/spf13/cobra"

	"interlock.sh/server"
	"interlock.sh/tasks"
)

// serveFlags is what the command line says about the control plane beside what its Config takes as it is.
type serveFlags struct {
	config         server.Config
	trustedProxies []string
	logLevel       string
	logFormat      string
}

func (a *app) serveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the control plane",
		Example: "  interlock serve --data ./data\n" +
			"  interlock serve --data /var/lib/interlock --listen :443 --public-url https://fleet.example.com --tls-cert cert.pem --tls-key key.pem\n" +
			"  interlock serve --data /var/lib/interlock --listen :443 --http-listen :80 --public-url https://fleet.example.com --acme-domain fleet.example.com",
		Args: cobra.NoArgs,
	}
	var flags serveFlags
	f, c := cmd.Flags(), &flags.config
	dataFlag(cmd, &c.Data)
	f.StringVar(&c.Listen, "listen", "127.0.0.1:8090", "address to listen on")
	f.StringVar(&c.PublicURL, "public-url", "", "address that others reach this server by; install lines print it")
	f.StringVar(&c.TLSCert, "tls-cert", "", "certificate file (PEM)")
	f.StringVar(&c.TLSKey, "tls-key", "", "key file (PEM)")
	f.BoolVar(&c.TLSSelfSigned, "tls-self-signed", false, "make an own authority, for a home or lab network; install lines then carry its pin")
	f.StringSliceVar(&c.ACMEDomains, "acme-domain", nil, "`domain` of this server whose certificate a public authority issues, agreeing to its terms; repeat it for several")
	f.StringVar(&c.ACMEEmail, "acme-email", "", "where the authority may write to about the certificates")
	f.StringVar(&c.ACMEDirectory, "acme-directory", "", "directory `URL` of another ACME authority, as a private one (default Let's Encrypt)")
	f.StringVar(&c.HTTPListen, "http-listen", "", "address for plain http, as :80: it answers the authority's HTTP challenge and sends everybody else to https")
	f.StringSliceVar(&flags.trustedProxies, "trusted-proxies", nil, "proxies whose X-Forwarded-For names the caller in the log, as addresses or prefixes; it changes nothing else")
	f.StringVar(&c.Assets, "assets", "", "`folder` of programs for machines, as make dist fills it")
	f.DurationVar(&c.Lease, "lease", tasks.Lease, "how long work stays a worker's without a sign of life; then it is tried elsewhere")
	f.StringVar(&flags.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&flags.logFormat, "log-format", "text", "text or json")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	cmd.MarkFlagsMutuallyExclusive("tls-cert", "tls-self-signed", "acme-domain")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), flags) }
	cmd.AddCommand(a.serveInstallCmd(cmd), a.serveUpgradeCmd(), a.serveUninstallCmd(), a.serveBackupCmd(), a.serveRestoreCmd(), a.serveRunningCmd())
	return cmd
}

func (a *app) serve(ctx context.Context, flags serveFlags) (err error) {
	c := flags.config
	c.Version, c.Clock, c.InsecureHTTP = Version, a.clock, a.flags.InsecureHTTP
	if c.Logger, err = newLogger(a.Err, flags.logLevel, flags.logFormat); err != nil {
		return err
	}
	if c.TrustedProxies, err = prefixes(flags.trustedProxies); err != nil {
		return err
	}
	c.Listening = func(base, pin string) {
		a.say("listening on %s", base)
		if pin != "" {
			a.say("pin %s", pin)
			a.note("machines and people know this server by its pin: interlock login --api %s --pin %s", cmp.Or(c.PublicURL, base), pin)
		}
		if c.PublicURL == "" && !onLoopback(c.Listen) {
			a.note("install lines will say %s, which other machines may not reach: name the address that they know with --public-url", base)
		}
	}
	c.OwnerToken = func(token string) {
		a.say("owner token: %s", token)
		a.note("the owner token works once, within 24 hours: give it to `interlock login`. It is not shown again")
	}
	return server.Run(ctx, c)
}

// onLoopback reports whether an address to listen on is for this machine alone.
func onLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	ip, _ := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || ip.IsLoopback())
}

func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{}
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, usage("--log-level %s is none of debug, info, warn, error", level)
	}
	opts.Level = least
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, usage("--log-format %s is neither text nor json", format)
}

// prefixes reads addresses and prefixes; an address is a prefix of itself alone.
func prefixes(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				return nil, usage("--trusted-proxies %s is neither an address nor a prefix, as in 10.0.0.1 or 10.0.0.0/8", text)
			}
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		out = append(out, p)
	}
	return out, nil
}

func dataFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "data", "interlock-data", "folder of the database and the files")
}
