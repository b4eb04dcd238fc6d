package cli

import (
	"github.com/spf13/cobra"

	"interlock.sh/fault"
)

// ServeFlags is what the command line says about the control plane.
type ServeFlags struct {
	Data           string   // folder of the database and the blobs
	Listen         string   // host:port
	PublicURL      string   // what install lines and links print; empty means the address listened on
	TLSCert        string   // PEM file with the certificate and its chain
	TLSKey         string   // PEM file with the key
	TLSSelfSigned  bool     // make an authority of its own
	TrustedProxies []string // addresses or prefixes whose X-Forwarded-* headers count
	Assets         string   // folder of programs offered to machines
	LogLevel       string   // debug, info, warn, error
	LogFormat      string   // text, json
	Version        string   // of this build
}

func (a *app) serveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the control plane",
		Example: "  interlock serve --data ./data\n" +
			"  interlock serve --data /var/lib/interlock --listen :443 --public-url https://fleet.example.com --tls-cert cert.pem --tls-key key.pem",
		Args: cobra.NoArgs,
	}
	flags := ServeFlags{Version: Version}
	f := cmd.Flags()
	dataFlag(cmd, &flags.Data)
	f.StringVar(&flags.Listen, "listen", "127.0.0.1:8090", "address to listen on")
	f.StringVar(&flags.PublicURL, "public-url", "", "address that others reach this server by; install lines print it")
	f.StringVar(&flags.TLSCert, "tls-cert", "", "certificate file (PEM)")
	f.StringVar(&flags.TLSKey, "tls-key", "", "key file (PEM)")
	f.BoolVar(&flags.TLSSelfSigned, "tls-self-signed", false, "make an own authority, for a home or lab network; install lines then carry its pin")
	f.StringSliceVar(&flags.TrustedProxies, "trusted-proxies", nil, "proxies whose forwarding headers count, as addresses or prefixes")
	f.StringVar(&flags.Assets, "assets", "", "folder of programs for machines, as `make dist` fills it")
	f.StringVar(&flags.LogLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&flags.LogFormat, "log-format", "text", "text or json")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	cmd.MarkFlagsMutuallyExclusive("tls-cert", "tls-self-signed")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if a.programs.Serve == nil {
			return notBuilt("the control plane")
		}
		return a.programs.Serve(cmd.Context(), flags, a.Stdio)
	}
	return cmd
}

func dataFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "data", "interlock-data", "folder of the database and the files")
}

func (a *app) adminCmd() *cobra.Command {
	var data string
	token := &cobra.Command{
		Use: "owner-token", Short: "Make a new owner token, on the server's machine", Args: cobra.NoArgs,
		Long: "Make a new owner token for `interlock login`. It works once, within 24 hours, and is shown once.",
	}
	dataFlag(token, &data)
	token.RunE = func(cmd *cobra.Command, _ []string) error {
		if a.programs.OwnerToken == nil {
			return notBuilt("the control plane")
		}
		secret, err := a.programs.OwnerToken(cmd.Context(), data)
		if err != nil {
			return err
		}
		a.note("this owner token works once, within 24 hours: give it to `interlock login`")
		a.say("%s", secret)
		return nil
	}
	return noun("admin", "Administer a control plane on its own machine", token)
}

func notBuilt(what string) error {
	return fault.New(fault.Unavailable, "this build of interlock has no part for %s", what).
		WithHint("install the full program")
}
