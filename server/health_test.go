package server

import (
	"context"
	"errors"
	"testing"

	"interlock.sh/fault"
)

// The control plane says that it serves only while it does.
func TestReadiness(t *testing.T) {
	p := &plane{}
	if err := p.isReady(context.Background()); !errors.Is(err, fault.Unavailable) || fault.Of(err).Code.Status() != 503 {
		t.Errorf("before it serves: %v", err)
	}
	p.ready.Store(true)
	if err := p.isReady(context.Background()); err != nil {
		t.Error(err)
	}
}
