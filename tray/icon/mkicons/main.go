// Command mkicons writes the app's picture to files, as packages want it: a .png of 256 pixels or a .icns with
// the sizes that macOS shows.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"interlock.sh/tray/icon"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: mkicons FILE.png|FILE.icns...")
		os.Exit(2)
	}
	for _, path := range os.Args[1:] {
		if err := write(path); err != nil {
			fmt.Fprintln(os.Stderr, "mkicons:", err)
			os.Exit(1)
		}
	}
}

func write(path string) error {
	var b []byte
	switch filepath.Ext(path) {
	case ".png":
		b = icon.App(256)
	case ".icns":
		b = icon.ICNS()
	default:
		return fmt.Errorf("%s: the name ends in neither .png nor .icns", path)
	}
	return os.WriteFile(path, b, 0o644)
}
