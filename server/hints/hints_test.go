package hints

import "testing"

func TestHintsAreMergedAndOnlyOfTheTopic(t *testing.T) {
	var h Hub
	a, leaveA := h.Subscribe("a")
	both := make(chan struct{}, 1)
	leaveOne, leaveOther := h.Join("a", both), h.Join("b", both)
	h.Publish("a", "c")
	h.Publish("a")
	for _, ch := range []<-chan struct{}{a, both} {
		<-ch
		if len(ch) != 0 {
			t.Fatal("two hints were not merged")
		}
	}
	h.Publish("b")
	<-both
	if len(a) != 0 {
		t.Fatal("a hint of another topic came")
	}
	leaveA()
	leaveOne()
	leaveOther()
	h.Publish("a", "b")
	if len(a)+len(both) != 0 || len(h.all) != 0 {
		t.Fatalf("after leaving: hints came, or %d topics are left", len(h.all))
	}
}
