// Command mkmanifest writes the manifest of a folder of builds: mkmanifest DIR VERSION.
package main

import (
	"errors"
	"fmt"
	"os"

	"interlock.sh/installer"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mkmanifest:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: mkmanifest DIR VERSION")
	}
	m, err := installer.BuildManifest(args[0], args[1])
	if err != nil {
		return err
	}
	return installer.WriteManifest(args[0], m)
}
