// Package measure takes the measurements. Each compares ours with what it is judged by in one run, in
// turns, so that what else the machine does meets both alike. It prints nothing and judges by the bounds
// alone; only what is broken is an error.
package measure
