package bar

import "interlock.sh/tray"

// title is what the item is called.
const title = "Nightshift"

// pixels is the size of the picture: twice what bars show, for dense screens.
const pixels = 44

// alike reports whether b can be shown in the places of a.
func alike(a, b []tray.Item) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Kind != b[i].Kind || !alike(a[i].Items, b[i].Items) {
			return false
		}
	}
	return true
}
