package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"interlock.sh/fault"
	"interlock.sh/release"
)

func outFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("out", "", "write the root, unsigned, to this new `file` for the holders of root keys")
}

// isNew refuses a file that is there, before anybody types a passphrase.
func isNew(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Conflict, "%s is there already", path).WithField("out").WithHint("name another file")
	}
	return nil
}

// replacements reads what --replace names: a key, or a key and the file of the one in its place.
func replacements(named []string) ([]release.Replacement, error) {
	var out []release.Replacement
	for _, text := range named {
		key, file, by := strings.Cut(text, "=")
		r := release.Replacement{Key: key}
		if by {
			public, err := release.ReadPublicKey(file)
			if err != nil {
				return nil, err
			}
			r.By = &public
		}
		out = append(out, r)
	}
	return out, nil
}

// proposeFirst begins a repository whose root keys are elsewhere.
func (a *app) proposeFirst(ctx context.Context, d *desk, files []string, threshold int, s release.Settings, keys *release.Keyring, out string) error {
	if len(files) == 0 || out == "" {
		return usage("--root-key and --out belong together: the holders of those keys sign that file")
	}
	if err := isNew(out); err != nil {
		return err
	}
	var roots []release.PublicKey
	for _, file := range files {
		k, err := release.ReadPublicKey(file)
		if err != nil {
			return err
		}
		roots = append(roots, k)
	}
	p, err := release.ProposeFirst(ctx, d.repository, roots, threshold, s, keys, a.clock)
	if err != nil {
		return err
	}
	return a.writeProposal(p, out)
}

func (a *app) writeProposal(p release.Proposal, path string) error {
	if err := p.Write(path, true); err != nil {
		return err
	}
	a.sayProposal(p)
	a.note("bring %s to the holders of root keys: interlock release keys sign %s --keys <their folder>; then back here: interlock release keys apply %s", path, path, path)
	return nil
}

// sayProposal shows what would count, and who has signed that.
func (a *app) sayProposal(p release.Proposal) {
	v := p.Describe()
	a.say("root %d, good until %s", v.Version, v.Expires.UTC().Format(time.DateOnly))
	for _, r := range v.Roles {
		words := ""
		if r.Before != 0 && r.Before != r.Threshold {
			words = fmt.Sprintf("  (was %d)", r.Before)
		}
		a.say("  %-10s any %d of these%s", r.Role, r.Threshold, words)
		for _, id := range r.Stay {
			a.say("      %s", id)
		}
		for _, id := range r.New {
			a.say("    + %s  new", id)
		}
		for _, id := range r.Gone {
			a.say("    - %s  counts no more", id)
		}
	}
	a.saySigned(v)
}

func (a *app) saySigned(v release.ProposalView) {
	for _, s := range v.Signed {
		a.say("signed by %d of the %d keys that root %d wants", len(s.By), s.Threshold, s.Root)
	}
}

func (a *app) releaseKeysNewCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "new <name>", Short: "Make one key where its holder is, and the public half that leaves their hands", Args: exactly(1),
		Long: "Make one key, such as root-4, in the first folder of --keys, under its own passphrase. Beside it stands\n" +
			"root-4.pub: give that to the release machine (keys init --root-key, keys rotate --replace), and tell whoever\n" +
			"runs it the key's id by another way. The key itself never has to leave this place.",
		Example: "  interlock release keys new root-4 --keys /media/usb4",
	}
	d := a.holder(cmd)
	scryptFlag(cmd, d)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		keys, err := d.ring()
		if err != nil {
			return err
		}
		k, path, err := release.NewKey(cmd.Context(), args[0], keys)
		if err != nil {
			return err
		}
		a.say("%-13s %s", k.Name, k.ID)
		a.note("give %s to the release machine, and keep copies of the key", path)
		return nil
	}
	return cmd
}

func (a *app) releaseKeysSignCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "sign <file>", Short: "Sign a root that waits for signatures, where a root key is", Args: exactly(1),
		Long: "Sign a root that keys init or keys rotate wrote with --out. It needs the file and the folder of a root key, no\n" +
			"repository and no network: run it where the key is kept, and carry the file on. It shows what would count\n" +
			"from then on: compare the ids of new keys with what their holders tell you, and sign nothing else.\n" +
			"A file whose signatures are not over what it holds is refused.",
		Example: "  interlock release keys sign next-root.json --keys /media/usb1",
	}
	d := a.holder(cmd)
	yes := yesFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := release.ReadProposal(args[0])
		if err != nil {
			return err
		}
		keys, err := d.ring()
		if err != nil {
			return err
		}
		a.sayProposal(p)
		if err := a.confirm(cmd.Context(), *yes, "Sign this root?"); err != nil {
			return err
		}
		names, err := p.Sign(cmd.Context(), keys, a.clock.Now())
		if err != nil {
			return err
		}
		if len(names) == 0 {
			a.say("every key in %s that counts has signed already", strings.Join(d.keys, ", "))
			return nil
		}
		if err := p.Write(args[0], false); err != nil {
			return err
		}
		a.say("%s signed", strings.Join(names, ", "))
		a.saySigned(p.Describe())
		return nil
	}
	return cmd
}

func (a *app) releaseKeysApplyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "apply <file>…", Short: "Make a root that enough holders signed the newest", Args: atLeast(1),
		Long: "Make a root that enough holders signed the newest, on the release machine. Copies of one file that were\n" +
			"signed at the same time are given together. Where the root replaces keys of releases, what they had signed is\n" +
			"signed again: passphrases are asked for in the order targets, snapshot, timestamp. A file that follows another\n" +
			"root than the newest is refused.",
		Example: "  interlock release keys apply next-root.json\n  interlock release keys apply ada.json grace.json",
	}
	d := a.desk(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := release.ReadProposal(args[0])
		if err != nil {
			return err
		}
		for _, path := range args[1:] {
			other, err := release.ReadProposal(path)
			if err != nil {
				return err
			}
			if err := p.Merge(other); err != nil {
				return err
			}
		}
		keys, err := d.ring()
		if err != nil {
			return err
		}
		out, err := release.Apply(cmd.Context(), d.repository, p, keys, a.clock)
		if err != nil {
			return err
		}
		a.sayPublished(out)
		a.note("bring it to the control planes: interlock release publish --api <url>")
		return nil
	}
	return cmd
}
