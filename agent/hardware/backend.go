package hardware

import (
	"context"

	"interlock.sh/llama"
)

// backend is a model server, ours or another's.
type backend interface {
	// run keeps the server, or an eye on it, until ctx ends, and tells each change.
	run(ctx context.Context, tell func(standing)) error
	// lease is the right to send one request; done ends it and says whether the answer was whole.
	lease() (model *llama.Client, done func(whole bool), err error)
	// doubt tells that a request was not answered as it should.
	doubt(reason string)
}

// standing is how a model server stands.
type standing struct {
	ready bool
	slots int    // requests at once, when it is ready
	words string // its state, for people
	stuck bool   // it does not get ready by itself: a person has to do something
	pid   int    // of a server of our own
}
