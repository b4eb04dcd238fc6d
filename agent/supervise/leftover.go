package supervise

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"interlock.sh/internal/retry"
)

// Leftover is a child that an earlier agent recorded and did not see the end of.
type Leftover struct {
	Name    string
	PID     int
	Outcome Outcome
}

// Outcome is what became of a leftover.
type Outcome string

// The outcomes.
const (
	Gone     Outcome = "gone"     // it had ended; nothing was signalled
	Foreign  Outcome = "foreign"  // its pid belongs to another process now; nothing was signalled
	Killed   Outcome = "killed"   // it was ours, and has been ended
	Unkilled Outcome = "unkilled" // it is ours and did not end by SIGKILL in time
)

// sweepEvery is between two looks at a leftover that was told to end: it is no child of ours, so
// nothing wakes us.
const sweepEvery = 20 * time.Millisecond

// Sweep ends what an earlier agent left running, and says what it found. Call it before Add. Only a
// process with the recorded pid and the recorded start time is ours. What was inherited is not left over.
func (s *Supervisor) Sweep(ctx context.Context) ([]Leftover, error) {
	var found []Leftover
	var errs []error
	for _, r := range s.table.all() {
		if s.inherits(r.Identity) {
			continue
		}
		outcome, err := s.sweepOne(ctx, r)
		if err != nil { // its record stays for the next sweep, and the others have their turn
			errs = append(errs, fmt.Errorf("end %s, process %d, left by an earlier run: %w", r.Name, r.PID, err))
			continue
		}
		found = append(found, Leftover{Name: r.Name, PID: r.PID, Outcome: outcome})
		if outcome == Unkilled {
			continue // the record stays: it is still ours
		}
		if err := s.table.remove(r.Identity); err != nil {
			errs = append(errs, err)
		}
		if outcome != Foreign {
			reapNow(r.PID) // it is our child when a former image of this very process started it
		}
	}
	return found, errors.Join(errs...)
}

func (s *Supervisor) sweepOne(ctx context.Context, r record) (Outcome, error) {
	if !r.running() {
		if _, err := startOf(r.PID); err == nil {
			return Foreign, nil
		}
		return Gone, nil
	}
	waits := []struct {
		signal syscall.Signal
		within time.Duration
	}{{syscall.SIGTERM, s.policy.TermAgain}, {syscall.SIGKILL, s.policy.ReapWithin}}
	for _, w := range waits {
		// Each signal is preceded by a look, so that a pid reused meanwhile is not hit.
		if !r.running() {
			return Killed, nil
		}
		if err := signalLeader(r.PID, w.signal); err != nil {
			return "", err
		}
		for end := s.clock.Now().Add(w.within); s.clock.Now().Before(end); {
			if !r.running() {
				return Killed, nil
			}
			if err := retry.Sleep(ctx, s.clock, sweepEvery); err != nil {
				return "", err
			}
		}
	}
	if r.running() {
		return Unkilled, nil
	}
	return Killed, nil
}

// signalLeader signals the group of a process that leads it, as all our children do, and the process
// alone when it does not lead any.
func signalLeader(pid int, sig syscall.Signal) error {
	target := pid
	if group, err := syscall.Getpgid(pid); err == nil && group == pid {
		target = -pid
	}
	if err := syscall.Kill(target, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}
