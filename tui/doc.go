// Package tui is the fleet dashboard in a terminal. It owns the root model: which page is open, when
// data is read, and what becomes of it; pages and components draw. It talks to a control plane through
// Backend alone, which the client satisfies, and knows neither profiles nor HTTP.
//
// Data is read by GET. The event stream only hints at what to read; a refresh every few seconds is
// what makes the dashboard correct without any event. A read that brings what is on the screen already
// changes nothing, and then nothing is drawn.
package tui
