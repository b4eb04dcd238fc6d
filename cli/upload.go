package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"interlock.sh/client"
	"interlock.sh/fleet"
)

// plainEvery is the least time between two lines of progress where there is no terminal.
const plainEvery = 5 * time.Second

// rateAge is over how many steps of a transfer the rate shown is averaged.
const rateAge = 60

// upload sends one file and shows how it goes: a bar with rate and time left on a terminal, lines
// elsewhere.
func (a *app) upload(ctx context.Context, c *client.Client, path string, file fleet.File) (client.Ref, error) {
	began := a.clock.Now()
	progress, finish := a.plainProgress(file)
	if isTerminal(a.Err) {
		progress, finish = a.barProgress(ctx, file)
	}
	ref, err := c.Upload(ctx, path, client.Transfer{Progress: progress})
	finish(err == nil)
	if err != nil {
		return ref, err
	}
	a.note("%s is on the server: %s in %s", file.Name, humanize.Bytes(uint64(ref.Size)), brief(a.clock.Now().Sub(began)))
	return ref, nil
}

func (a *app) barProgress(ctx context.Context, file fleet.File) (progress func(done, total int64), finish func(ok bool)) {
	p := mpb.NewWithContext(ctx, mpb.WithOutput(a.Err), mpb.WithWidth(64))
	bar := p.AddBar(file.Size,
		mpb.PrependDecorators(decor.Name(clean(file.Name), decor.WCSyncSpaceR), decor.CountersKiloByte(" % .1f / % .1f")),
		mpb.AppendDecorators(decor.Percentage(decor.WC{W: 6}), decor.EwmaSpeed(decor.SizeB1000(0), " % .1f", rateAge),
			decor.Name(" left "), decor.EwmaETA(decor.ET_STYLE_GO, rateAge)),
	)
	last, at := int64(-1), a.clock.Now()
	progress = func(done, _ int64) {
		now := a.clock.Now()
		if last < 0 || done < last { // where an earlier try stopped, or begun again: says nothing about the speed
			bar.SetCurrent(done)
		} else {
			bar.EwmaSetCurrent(done, now.Sub(at))
		}
		last, at = done, now
	}
	finish = func(ok bool) {
		if ok {
			bar.SetCurrent(file.Size) // bytes that the server had already were never counted
		} else {
			bar.Abort(false)
		}
		p.Wait()
	}
	return progress, finish
}

func (a *app) plainProgress(file fleet.File) (progress func(done, total int64), finish func(ok bool)) {
	last := a.clock.Now()
	began, from := last, int64(-1)
	progress = func(done, total int64) {
		if from < 0 {
			from = done
		}
		now := a.clock.Now()
		if now.Sub(last) < plainEvery || total <= 0 {
			return
		}
		last = now
		perSecond := float64(done-from) / now.Sub(began).Seconds()
		left := unknown
		if perSecond > 0 {
			left = brief(time.Duration(float64(total-done) / perSecond * float64(time.Second)))
		}
		a.note("%s: %s of %s (%d%%), %s/s, %s left", file.Name, humanize.Bytes(uint64(done)), humanize.Bytes(uint64(total)),
			done*100/total, humanize.Bytes(uint64(max(perSecond, 0))), left)
	}
	return progress, func(bool) {}
}

// brief is a duration to the second, or to the tenth of one where it is short.
func brief(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}
