package cli

import (
	"context"
	"os"
	"path/filepath"

	"interlock.sh/agent/enrollment"
	"interlock.sh/updater"
)

// trustReleases pins, when a machine is enrolled, the root of trust by which its control plane's releases
// are signed, over the connection that the enrollment was made on, and says so. A machine works without
// updates, so nothing of it makes an enrollment fail: the updater tries again.
func (a *app) trustReleases(ctx context.Context, e enrollment.Enrollment) {
	o, err := mirror(e.Origin, e.Pin, e.InsecureHTTP)
	if err != nil {
		a.note("no root of trust was pinned, the updater tries again: %s", clean(err.Error()))
		return
	}
	defer o.Client.Close()
	app, err := updater.Folder(ctx, string(e.Home), o)
	if err == nil && app != filepath.Join(string(e.Home), "app") {
		if _, gone := os.Stat(app); gone != nil { // the install line makes it, with its programs
			a.note("the releases of %s have another root of trust than the programs of this machine, so it does not update them: its install line brings programs of its own", e.Origin)
			return
		}
	}
	first := false
	if err == nil {
		first, err = updater.Pin(ctx, app, o)
	}
	switch {
	case err != nil:
		a.note("no root of trust was pinned, the updater tries again: %s", clean(err.Error()))
	case first:
		a.note("updates are trusted from now on by the root that %s showed (SHA-256 %s)", e.Origin, updater.Fingerprint(app))
	}
}
