// Command racepkgs prints the import paths of the packages that start goroutines, one a line; with
// -without, of those that start none. The Makefile splits the test run by it.
package main

import (
	"flag"
	"fmt"
	"os"

	"interlock.sh/internal/arch"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "racepkgs:", err)
		os.Exit(1)
	}
}

func run() error {
	complement := flag.Bool("without", false, "print the packages that start no goroutine")
	flag.Parse()
	root, err := arch.FindRoot(".")
	if err != nil {
		return err
	}
	m, err := arch.Load(root)
	if err != nil {
		return err
	}
	with, without := arch.Concurrent(m)
	if *complement {
		with = without
	}
	for _, p := range with {
		fmt.Println(m.ImportPath(p))
	}
	return nil
}
