package updater

import (
	"context"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/retry"
)

// paceShare of a second is what may come at once: a new limit is felt soon.
const paceShare = 4

// pace keeps a download within a limit that may change while it goes on.
type pace struct {
	u    *Updater
	rate func() (bytesPerSecond int64, limited bool)
	owed int64 // bytes that came and were not waited for
}

// spend waits for as long as so many bytes last.
func (p *pace) spend(ctx context.Context) func(n int) error {
	return func(n int) error {
		p.owed += int64(n)
		for p.owed > 0 {
			r, limited := p.rate()
			switch {
			case !limited:
				p.owed = 0
				return nil
			case r <= 0:
				return held()
			case p.owed < r/paceShare:
				return nil
			}
			part := min(p.owed, max(r, 1))
			if err := retry.Sleep(ctx, p.u.clock, time.Duration(float64(part)/float64(r)*float64(time.Second))); err != nil {
				return err
			}
			p.owed -= part
		}
		return nil
	}
}

// held is what keeps a download back.
func held() error {
	return fault.New(fault.Unavailable, "the owner of this machine lets nothing be downloaded now").
		WithHint("interlock agent hours shows until when; interlock agent update --now brings it in all the same")
}
