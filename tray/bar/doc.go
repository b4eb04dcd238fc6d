// Package bar draws a menu in the menu bar: a StatusNotifier item with a menu over D-Bus on Linux, a status
// item by fyne.io/systray on macOS. It turns a tree of items into what the system shows, changes only what
// differs, and passes clicks on as actions. It decides nothing about what a menu says.
//
// On Linux it speaks D-Bus itself. Panels ask for the properties of a menu and of its submenus in several
// calls at once and build the menu in the order of the answers; when a submenu's answer overtakes that of its
// parent, the submenu stays empty until the panel starts anew. godbus, and so systray, answers each call from a
// goroutine of its own: on a busy machine, the usual place of this app, xfce4-panel was seen with empty
// submenus. Here one loop answers everything in the order in which it was asked.
package bar
