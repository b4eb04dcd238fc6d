package build

import "strings"

// AppFolder is the folder of a home that holds the programs and what they trust. The programs of an origin with
// another root of trust have a folder of their own beside it, see OwnApp.
const AppFolder = "app"

// MarkLength is how many hexadecimal digits tell an app folder of its own from the others.
const MarkLength = 8

// OwnApp names the app folder for another root of trust than that of the common one. Its mark is the beginning
// of the SHA-256 of the first root, in small hexadecimal digits.
func OwnApp(mark string) string { return AppFolder + "-" + mark }

// ReadApp reads a folder's name: mark is that of OwnApp, "" for the common folder. ok is false for the name of
// anything else.
func ReadApp(name string) (mark string, ok bool) {
	if name == AppFolder {
		return "", true
	}
	mark, ok = strings.CutPrefix(name, AppFolder+"-")
	if !ok || len(mark) != MarkLength || strings.Trim(mark, "0123456789abcdef") != "" {
		return "", false
	}
	return mark, true
}
