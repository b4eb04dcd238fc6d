package agent

import (
	"cmp"
	"errors"

	"interlock.sh/fault"
)

// trouble is why an agent may do nothing at all, in words; empty where nothing is wrong.
type trouble struct {
	copied   string // the folder belongs to another computer, until the agent is started anew
	ended    string // the control plane took this machine's authority, likewise
	conflict string // another computer reports under this machine's name, until a heartbeat is accepted
}

// String is the trouble that is shown: what lasts longest comes first.
func (t trouble) String() string { return cmp.Or(t.copied, t.ended, t.conflict) }

const revokedWords = "this machine was revoked: run the install line with a fresh key to enroll it again"

// blame changes the trouble, and shows and heeds it when it is another one then.
func (a *Agent) blame(change func(t *trouble)) {
	a.mu.Lock()
	before := a.trouble
	change(&a.trouble)
	changed := a.trouble != before
	a.mu.Unlock()
	if changed {
		a.poke()
	}
}

// said is an error as a person reads it: a coded one's message, else
// its whole text.
func said(err error) string {
	var e *fault.Error
	if errors.As(err, &e) && e.Code != fault.Internal {
		return e.Message
	}
	return err.Error()
}
