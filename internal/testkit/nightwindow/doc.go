// Package nightwindow puts Nightshift's window on a canvas without a display, with a machine that a test plays
// behind it, and finds, taps and reads what is on it.
package nightwindow
