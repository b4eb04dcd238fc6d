// Package window draws Nightshift's window: the roles of this machine and what the owner chose for each, the
// editor of hours and limits, logs, updates, about, and the way out. It turns a snapshot into widgets and
// taps into calls of the small interfaces below. It finds no agents and starts no app: the app that shows it
// is the caller's, so it is tested without a display.
//
// Everything runs on Fyne's main goroutine but the calls themselves, which come back through Options.Do.
package window
