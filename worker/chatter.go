package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"interlock.sh/internal/retry"
	"interlock.sh/tasks"
)

const (
	maxLines      = 1000      // waiting to be sent
	reportLines   = 200       // in one report
	reportBytes   = 512 << 10 // of lines in one report
	lastWordsWait = time.Second
)

// chatter sends an attempt's progress and log, one report at a time, beside the handler.
type chatter struct {
	at *attempt

	mu      sync.Mutex
	newest  *tasks.Progress
	lines   []tasks.LogLine
	dropped int
	talking bool
	closed  bool
	idle    chan struct{} // when set, closes once everything is said
}

func (c *chatter) progress(p tasks.Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = &p
	c.talk()
}

func (c *chatter) log(level, line string) {
	switch level {
	case "debug", "info", "warn", "error":
	default:
		level = "info"
	}
	if len(line) > tasks.MaxLogLine {
		line = strings.ToValidUTF8(line[:tasks.MaxLogLine-len(" …")], "") + " …"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lines) >= maxLines {
		c.dropped++
		return
	}
	c.lines = append(c.lines, tasks.LogLine{Level: level, Line: line})
	c.talk()
}

// talk begins to send, unless somebody does. The caller holds mu.
func (c *chatter) talk() {
	if c.talking || c.closed {
		return
	}
	c.talking = true
	c.at.w.work.Go(c.send)
}

// close ends the chatter: what is said from now on is not sent.
func (c *chatter) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// lastWords waits a moment for what was said last, and ends the chatter.
func (c *chatter) lastWords(ctx context.Context) {
	c.close()
	c.mu.Lock()
	if !c.talking {
		c.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	c.idle = idle
	c.mu.Unlock()
	select {
	case <-idle:
	case <-c.at.w.clock.After(lastWordsWait):
	case <-ctx.Done():
	}
}

// next is one thing to send; false when there is none.
func (c *chatter) next() (*tasks.Progress, []tasks.LogLine, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.newest
	c.newest = nil
	n, size := 0, 0
	for n < len(c.lines) && n < reportLines && size < reportBytes {
		size += len(c.lines[n].Line)
		n++
	}
	lines := c.lines[:n:n]
	c.lines = c.lines[n:]
	if len(c.lines) == 0 && c.dropped > 0 {
		c.lines = append(c.lines, tasks.LogLine{Level: "warn", Line: fmt.Sprintf("%d lines were dropped here: the handler logged faster than they could be sent", c.dropped)})
		c.dropped = 0
	}
	if p == nil && n == 0 {
		c.talking = false
		if c.idle != nil {
			close(c.idle)
			c.idle = nil
		}
		return nil, nil, false
	}
	return p, lines, true
}

func (c *chatter) send() {
	at := c.at
	for {
		p, lines, more := c.next()
		if !more {
			return
		}
		if len(lines) > 0 {
			c.persist(func() error {
				return at.w.transport.ReportLog(at.alive, tasks.LogReport{Ref: at.Ref, Lines: lines})
			})
		}
		if p != nil {
			c.persist(func() error {
				if c.newer() {
					return nil
				}
				return at.w.transport.ReportProgress(at.alive, tasks.ProgressReport{Ref: at.Ref, Progress: *p})
			})
		}
	}
}

// newer is true when progress that waits replaces the one to be sent.
func (c *chatter) newer() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest != nil
}

// persist sends until it is taken, refused, or the attempt is over.
func (c *chatter) persist(report func() error) {
	at := c.at
	back := retry.Backoff{Base: 200 * time.Millisecond, Cap: 5 * time.Second}
	for at.alive.Err() == nil {
		err := report()
		if err == nil || at.alive.Err() != nil {
			return
		}
		switch judge(err) {
		case expelled:
			at.w.giveUp(err)
			return
		case refused:
			if isStale(err) {
				at.silence()
			} else {
				at.w.log.Warn("report progress or log", slog.String("task", at.TaskID), slog.Any("cause", err))
			}
			return
		case tryAgain:
		}
		at.w.pause(at.alive, &back, err)
	}
}
