package agent

import (
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/hostfacts"
)

// OwnerLimit is the owner's limit of downloads for a role now, for programs beside the agent. Hours that
// cannot be read limit nothing: they keep the role at rest, and not the machine from being mended.
func OwnerLimit(e enrollment.Enrollment, now time.Time) (bytesPerSecond int64, limited bool) {
	w, _ := loadWish(e.Dir())
	zone := hostfacts.LocalZone()
	if len(w.Bandwidth) == 0 || zone.Location == nil {
		return 0, false
	}
	return w.Rate(now.In(zone.Location))
}
