package hints

import (
	"reflect"
	"testing"
)

func TestHintsAreMergedAndOnlyOfTheTopic(t *testing.T) {
	var h Hub
	s := h.Subscribe("a", "b")
	h.Publish("a")
	h.Publish("a")
	h.Publish("c")
	h.Publish("b")
	<-s.Wake()
	if got := s.Take(); !reflect.DeepEqual(got, []string{"a", "b"}) {
		t.Fatalf("took %v, want a and b once each", got)
	}
	if got := s.Take(); got != nil {
		t.Fatalf("a second Take had %v", got)
	}
	s.Close()
	h.Publish("a")
	if got := s.Take(); got != nil || len(h.subs) != 0 {
		t.Fatalf("after Close: took %v, %d topics left", got, len(h.subs))
	}
}
