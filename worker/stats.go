package worker

// Stats is what a worker does and did.
type Stats struct {
	Held      int                  // attempts that are leased to it now
	Handled   int64                // attempts whose end was reported and taken
	Succeeded int64                // of these, with a result
	Failed    int64                // with a failure, cancelled and returned ones aside
	Cancelled int64                // after a cancel request
	Returned  int64                // handed back undone
	Unknown   int64                // with an unknown outcome
	Stale     int64                // attempts that were lost to a newer one or whose lease ran out
	Draining  bool                 // claims nothing
	Pools     map[string]PoolStats // by name
}

// PoolStats is one pool's part.
type PoolStats struct{ Slots, Busy int }

// Stats is a snapshot.
func (w *Worker) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Held, s.Draining, s.Pools = len(w.held), w.drain || w.stopping, make(map[string]PoolStats, len(w.pools))
	for _, p := range w.pools {
		s.Pools[p.name] = PoolStats{p.slots, p.busy}
	}
	return s
}

// count notes an attempt that is over; kind is what was reported and taken, if anything.
func (w *Worker) count(kind endKind, e ending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if kind == endNothing {
		w.stats.Stale++
		return
	}
	w.stats.Handled++
	switch {
	case kind == endComplete:
		w.stats.Succeeded++
	case kind == endUnknown:
		w.stats.Unknown++
	case e.returned:
		w.stats.Returned++
	case e.cancelled():
		w.stats.Cancelled++
	default:
		w.stats.Failed++
	}
}
