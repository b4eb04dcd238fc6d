// Command manpages writes what a package ships beside the program: a manual page for each verb and the
// completions of three shells. manpages DIR VERSION SECONDS writes DIR/man/*.1 and DIR/completions/*;
// SECONDS is the date of the pages since 1970, so that two builds of one commit are the same bytes.
//
// It belongs to the build alone: the generator of manual pages is no part of the program.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"interlock.sh/cli"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: manpages DIR VERSION SECONDS")
	}
	seconds, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return fmt.Errorf("SECONDS is %q, which is no number", args[2])
	}
	man, completions := filepath.Join(args[0], "man"), filepath.Join(args[0], "completions")
	for _, dir := range []string{man, completions} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	date := time.Unix(seconds, 0).UTC()
	root := cli.Commands()
	describe(root)
	header := doc.GenManHeader{Section: "1", Source: "Interlock " + args[1], Manual: "Interlock Manual", Date: &date}
	if err := doc.GenManTree(root, &header, man); err != nil {
		return fmt.Errorf("write manual pages: %w", err)
	}
	return errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(completions, "interlock.bash"), true),
		root.GenZshCompletionFile(filepath.Join(completions, "_interlock")),
		root.GenFishCompletionFile(filepath.Join(completions, "interlock.fish"), true),
	)
}

// describe leaves the line "auto generated" out of every page, and gives a verb without a long text its
// short one.
func describe(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	if cmd.Long == "" {
		cmd.Long = cmd.Short + "."
	}
	for _, c := range cmd.Commands() {
		describe(c)
	}
}
