package worker

import "context"

// Settle waits until a worker that drains has nothing under way: no claim is out that could still bring an
// attempt, and every end is answered. It is how a program that replaces itself knows that nothing is lost.
// The error is why ctx ended first.
func (w *Worker) Settle(ctx context.Context) error {
	for {
		w.mu.Lock()
		if w.drain && w.out == 0 && len(w.held) == 0 {
			w.mu.Unlock()
			return nil
		}
		if w.moved == nil {
			w.moved = make(chan struct{})
		}
		moved := w.moved
		w.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// move wakes those who wait in Settle. The caller holds mu.
func (w *Worker) move() {
	if w.moved != nil {
		close(w.moved)
		w.moved = nil
	}
}

// answered notes that a claim is no longer out; what it brought is held by then.
func (w *Worker) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out--
	w.move()
}
