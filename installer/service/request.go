package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"interlock.sh/fault"
)

// Verb is what a request asks for.
type Verb string

// The verbs.
const (
	Install Verb = "install" // the named services, written, enabled and started
	Remove  Verb = "remove"  // the named services, stopped and taken away
)

const requestSchema = 1

// maxRequest bounds what root reads from a user.
const maxRequest = 64 << 10

// Request is what a user asks the step of root to do.
type Request struct {
	Schema   int    `json:"schema"`
	Verb     Verb   `json:"verb"`
	Home     string `json:"home"` // the agent's folder; the services belong to its owner and run as them
	Services []Spec `json:"services"`
	All      bool   `json:"all,omitempty"` // remove: every agent service of that user, also one whose group is gone
}

// NewRequest is a request of this version.
func NewRequest(verb Verb, home string, services ...Spec) Request {
	return Request{Schema: requestSchema, Verb: verb, Home: home, Services: services}
}

// ReadRequest reads and checks what a user's program wrote.
func ReadRequest(r io.Reader) (Request, error) {
	var q Request
	text, err := io.ReadAll(io.LimitReader(r, maxRequest+1))
	if err != nil {
		return q, fmt.Errorf("read the request: %w", err)
	}
	if len(text) > maxRequest {
		return q, fault.New(fault.TooLarge, "the request has more than %d bytes", maxRequest)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // what this program does not know, it does not do as root
	if err := d.Decode(&q); err != nil {
		return q, fault.Wrap(err, fault.Malformed, "the request is no JSON of this program's: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return q, fault.New(fault.Malformed, "the request has something after its end")
	}
	return q, q.check()
}

func (q Request) check() error {
	if q.Schema != requestSchema {
		return fault.New(fault.Invalid, "the request has schema %d; this program knows %d", q.Schema, requestSchema).
			WithHint("use the same program on both sides of sudo")
	}
	if err := checkPath("home", q.Home); err != nil {
		return err
	}
	if q.Verb != Install && q.Verb != Remove {
		return fault.New(fault.Invalid, "verb %q of a request is neither install nor remove", q.Verb).WithField("verb")
	}
	if len(q.Services) == 0 && (!q.All || q.Verb != Remove) {
		return fault.New(fault.Invalid, "the request names no service").WithField("services")
	}
	seen := map[string]bool{}
	for _, s := range q.Services {
		if err := s.Check(); err != nil {
			return err
		}
		if seen[s.Name()] {
			return fault.New(fault.Invalid, "the request names %s twice", s.Name()).WithField("services")
		}
		seen[s.Name()] = true
	}
	return nil
}
