// Package bar draws a menu in the menu bar: a StatusNotifier item over D-Bus on Linux, a status item on
// macOS. It turns a tree of items into what the system shows, changes only what differs, and passes clicks
// on as actions. It decides nothing about what a menu says.
package bar
