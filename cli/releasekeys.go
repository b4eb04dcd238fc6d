package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"interlock.sh/fault"
	"interlock.sh/release"
)

// programReleaseCmd is the noun of the release machine. It is another thing than a release of a model.
func (a *app) programReleaseCmd() *cobra.Command {
	return noun("release", "Release machine: build, sign and publish versions of these programs",
		noun("keys", "Keys that sign releases", a.releaseKeysInitCmd(), a.releaseKeysRotateCmd(), a.releaseKeysNewCmd(), a.releaseKeysSignCmd(), a.releaseKeysApplyCmd()),
		a.releaseBuildCmd(), a.releaseSignCmd(), a.releasePublishCmd(), a.releaseRefreshCmd(), a.releaseYankCmd(),
		noun("channel", "Which share of the machines is offered a version", a.releaseShareCmd()),
		a.releaseStatusCmd(),
	)
}

// desk is what every verb of the release machine names: the repository, the keys, and who knows the
// passphrases.
type desk struct {
	a          *app
	repository string
	keys       []string
	fd         int
	cost       int
	lines      *bufio.Reader
	screen     *term.Terminal
}

func (a *app) desk(cmd *cobra.Command) *desk {
	d := a.holder(cmd)
	cmd.Flags().StringVar(&d.repository, "repository", "release-repository", "`folder` of the signed repository")
	return d
}

// holder is the desk of who has keys and no repository.
func (a *app) holder(cmd *cobra.Command) *desk {
	d := &desk{a: a}
	f := cmd.Flags()
	f.StringArrayVar(&d.keys, "keys", []string{"release-keys"}, "`folder` of key files; give it several times when they are in several places. New keys go into the first")
	f.IntVar(&d.fd, "passphrase-fd", -1, "read passphrases from this open file `descriptor`, a line each, in the order in which they are needed (default: the terminal, else the standard input)")
	return d
}

func (d *desk) ring() (*release.Keyring, error) {
	return release.NewKeyring(d.keys, d.ask, d.cost)
}

// on opens the repository and the keys for a verb.
func (d *desk) on(verb func(ctx context.Context, r *release.Repository, keys *release.Keyring, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		r, err := release.Open(d.repository, d.a.clock)
		if err != nil {
			return err
		}
		defer r.Close()
		keys, err := d.ring()
		if err != nil {
			return err
		}
		return verb(cmd.Context(), r, keys, args)
	}
}

const passphraseTries = 3

// ask gets a passphrase. A new one is typed twice on a terminal, since nobody can see it.
func (d *desk) ask(ctx context.Context, key string, isNew bool) (string, error) {
	in, terminal := d.a.In.(*os.File)
	if d.fd >= 0 || !terminal || !isTerminal(in) {
		return d.nextLine(ctx, key)
	}
	if d.screen == nil {
		d.screen = d.a.screen(in)
	}
	if !isNew {
		return askOn(ctx, in, d.screen, "passphrase of "+key)
	}
	for range passphraseTries {
		first, err := askOn(ctx, in, d.screen, "new passphrase of "+key)
		if err != nil {
			return "", err
		}
		if err := release.CheckPassphrase(first); err != nil {
			d.a.note("%v", err)
			continue
		}
		again, err := askOn(ctx, in, d.screen, "once more")
		if err != nil || again == first {
			return first, err
		}
		d.a.note("the two differ")
	}
	return "", fault.New(fault.Invalid, "no passphrase for %s after %d tries", key, passphraseTries).WithField("passphrase")
}

// nextLine reads one passphrase of several from where they come in.
func (d *desk) nextLine(ctx context.Context, key string) (string, error) {
	if d.lines == nil {
		from := d.a.In
		if d.fd >= 0 {
			from = os.NewFile(uintptr(d.fd), "passphrases")
		}
		if from == (*os.File)(nil) {
			return "", usage("--passphrase-fd %d is no open file", d.fd)
		}
		d.lines = bufio.NewReader(io.LimitReader(from, maxSecretLine))
	}
	line, err := await(ctx, func() (string, error) { return d.lines.ReadString('\n') })
	if line = strings.TrimRight(line, "\r\n"); line != "" {
		return line, nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fault.Wrap(err, fault.Invalid, "cannot read the passphrase of key %s: %v", key, err).WithField("passphrase")
	}
	return "", fault.New(fault.Invalid, "the passphrase of key %s did not come in", key).WithField("passphrase").
		WithHint("one line a key, in the order in which they are asked for; or run this on a terminal")
}

func (a *app) releaseKeysInitCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "init", Short: "Make the keys, each under its own passphrase, and an empty repository", Args: cobra.NoArgs,
		Long: "Make the keys, each under its own passphrase, and an empty repository.\n\n" +
			"Passphrases are asked for in this order: root-1 and the other root keys, snapshot-1, targets-1, timestamp-1.\n" +
			"Then move the root keys to where nothing is online, each to another place or person: a root is made by a\n" +
			"threshold of them, and nothing else is done with them. Machines keep the first root that they saw, or\n" +
			"the one that was built in.\n\n" +
			"Root keys that are never to meet are made by their holders (keys new root-1), who give their .pub files to\n" +
			"--root-key. What --out writes is then signed by a threshold of them (keys sign) and begins the repository\n" +
			"(keys apply).",
		Example: "  interlock release keys init --root-keys 3 --threshold 2\n" +
			"  interlock release keys init --root-key root-1.pub --root-key root-2.pub --root-key root-3.pub --out first-root.json",
	}
	d, s := a.desk(cmd), release.DefaultSettings()
	var layout release.Layout
	f := cmd.Flags()
	f.IntVar(&layout.RootKeys, "root-keys", 3, "how many root keys there are")
	f.IntVar(&layout.Threshold, "threshold", 2, "how many of them make a root")
	rootKeys := f.StringArray("root-key", nil, "public `file` of a root key that its holder keeps; repeat it for each")
	out := outFlag(cmd)
	f.IntVar(&s.RootDays, "root-days", s.RootDays, "life of a root in `days`")
	f.IntVar(&s.TargetsDays, "targets-days", s.TargetsDays, "life of the list of programs in `days`")
	f.IntVar(&s.SnapshotDays, "snapshot-days", s.SnapshotDays, "life of a snapshot in `days`")
	f.IntVar(&s.TimestampDays, "timestamp-days", s.TimestampDays, "life of a timestamp in `days`; refresh it more often than that")
	scryptFlag(cmd, d)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		keys, err := d.ring()
		if err != nil {
			return err
		}
		if len(*rootKeys) > 0 || *out != "" {
			return a.proposeFirst(cmd.Context(), d, *rootKeys, layout.Threshold, s, keys, *out)
		}
		r, err := release.Init(cmd.Context(), d.repository, layout, s, keys, a.clock)
		if err != nil {
			return err
		}
		defer r.Close()
		a.say("repository %s: root 1; %d of %d root keys make the next", d.repository, layout.Threshold, layout.RootKeys)
		for _, k := range r.Keys(keys) {
			a.say("%-13s %s", k.Name, k.ID)
		}
		a.note("move the root keys out of %s now, each to another offline place; keep copies", d.keys[0])
		return nil
	}
	return cmd
}

func scryptFlag(cmd *cobra.Command, d *desk) {
	cmd.Flags().IntVar(&d.cost, "scrypt-work", release.DefaultCost, "how dear a guess of a new key's passphrase is, as a power of two; 18 is about a second")
}

func (a *app) releaseKeysRotateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rotate", Short: "Make the next root: renew its life, and replace keys", Args: cobra.NoArgs,
		Long: "Make the next root: renew its life, and replace keys.\n\n" +
			"It wants the passphrases of a threshold of root keys, of the old root and of the new one. A key that is\n" +
			"replaced is named by its file, or by the first digits of its id when the file is lost. What replaced keys\n" +
			"had signed is signed again, by the replaced keys too where their files are here, so that no machine waits in\n" +
			"between. Passphrases are asked for in this order: new keys, root keys, then targets, snapshot and timestamp.\n\n" +
			"With --out no root key has to be here: the root is written to a file, which goes round among the holders\n" +
			"(keys sign) and comes back (keys apply).",
		Example: "  interlock release keys rotate --replace 3460e0d7ae21=root-4.pub --replace targets-1 --out next-root.json\n" +
			"  interlock release keys rotate --keys /media/usb1 --keys /media/usb2",
	}
	d := a.desk(cmd)
	named := cmd.Flags().StringArray("replace", nil, "`key` that a new one takes the place of, or key=file.pub for one that its holder made; may be given several times")
	out := outFlag(cmd)
	scryptFlag(cmd, d)
	cmd.RunE = d.on(func(ctx context.Context, r *release.Repository, keys *release.Keyring, _ []string) error {
		replace, err := replacements(*named)
		if err != nil {
			return err
		}
		if *out != "" {
			if err := isNew(*out); err != nil {
				return err
			}
			p, err := r.Propose(ctx, replace, keys)
			if err != nil {
				return err
			}
			return a.writeProposal(p, *out)
		}
		done, err := r.Rotate(ctx, replace, keys)
		if err != nil {
			return err
		}
		a.sayPublished(done)
		for _, x := range replace {
			a.say("%s signs nothing any more", x.Key)
		}
		a.note("bring it to the control planes: interlock release publish --api <url>")
		return nil
	})
	return cmd
}
