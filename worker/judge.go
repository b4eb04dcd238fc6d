package worker

import (
	"interlock.sh/client"
	"interlock.sh/fault"
)

// verdict is what an error of the control plane means for whoever asked.
type verdict int

const (
	tryAgain verdict = iota // it is away, busy, or its answer is not known
	refused                 // the same request will be refused again
	expelled                // the credential is worth nothing any more
)

func judge(err error) verdict {
	code := fault.CodeOf(err)
	status := client.StatusOf(err)
	if status == 0 {
		status = code.Status()
	}
	switch {
	case code == fault.Unauthenticated, code == fault.Revoked:
		return expelled
	case client.Transient(err):
		return tryAgain
	case status >= 400 && status < 500:
		return refused
	}
	return tryAgain
}
