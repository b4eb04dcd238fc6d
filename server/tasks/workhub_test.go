package servertasks

import "testing"

func woken(w *waiter) bool {
	select {
	case <-w.wake:
		return true
	default:
		return false
	}
}

func TestOneTaskWakesOneClaimTheLongestWaitingFirst(t *testing.T) {
	t.Parallel()
	h := newWorkHub()
	a, b := workKey{"p", "a", 1, "default"}, workKey{"p", "b", 1, "default"}
	first, second, third := h.park([]workKey{a, b}), h.park([]workKey{a}), h.park([]workKey{b})
	h.offer(a)
	if !woken(first) || woken(second) || woken(third) {
		t.Fatal("not the longest waiting alone")
	}
	h.offer(a)
	if woken(first) || !woken(second) {
		t.Fatal("the second task did not wake the second claim")
	}
	h.consume(first) // found nothing, keeps its place
	h.offer(b)
	if !woken(first) || woken(third) {
		t.Fatal("a claim that found nothing lost its place")
	}
	h.leave(first) // goes away without using it
	if !woken(third) {
		t.Fatal("an unused wake-up was lost")
	}
	h.leave(second)
	h.leave(third)
	if len(h.parked) != 0 {
		t.Fatalf("%d keys are left behind", len(h.parked))
	}
}

func TestStreamsAreHintedInTurnAndOnlyWhenNobodyIsParked(t *testing.T) {
	t.Parallel()
	h := newWorkHub()
	k := workKey{"p", "a", 1, "default"}
	chs := map[string]chan struct{}{"w1": make(chan struct{}, 1), "w2": make(chan struct{}, 1)}
	var cancels []func()
	for _, id := range []string{"w1", "w2"} {
		cancels = append(cancels, h.follow("p", id, []workKey{k}, chs[id]))
	}
	parked := h.park([]workKey{k})
	h.offer(k)
	if len(chs["w1"])+len(chs["w2"]) != 0 || !woken(parked) {
		t.Fatal("a stream was hinted although a claim was parked")
	}
	h.offer(k)
	h.offer(k)
	if len(chs["w1"]) != 1 || len(chs["w2"]) != 1 {
		t.Fatal("two tasks did not go to two streams")
	}
	for _, cancel := range cancels {
		cancel()
	}
	if len(h.followers) != 0 {
		t.Fatal("followers are left behind")
	}
}
