package enrollment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
)

// Request is what the install line says.
type Request struct {
	Origin       string
	Group        string // name or id
	Role         fleet.Role
	Runtime      fleet.Runtime // "" for llama.cpp, or for what an enrolled machine runs already
	Key          string        // bootstrap key; may be empty on a machine that is enrolled
	Pin          string
	InsecureHTTP bool
	Name         string // of the machine
	HostID       string
	Host         fleet.HostFacts
	Version      string
}

// Result says what Enroll did.
type Result struct {
	Enrollment
	Kept bool   // the credential that was there is kept, no key was exchanged
	Note string // why, when a key was given; and what was asked for and not done
}

// Enroll makes this machine a member of a group, or finds that it is one. A machine with the same
// origin, group and role keeps its credential, whatever key is given, unless the control plane answers
// that the credential is revoked or the folder came from another computer. Only one enrollment runs on
// a machine at a time.
func (h Home) Enroll(ctx context.Context, req Request) (Result, error) {
	if err := req.check(); err != nil {
		return Result{}, err
	}
	if err := os.MkdirAll(string(h), 0o700); err != nil {
		return Result{}, fmt.Errorf("make %s: %w", h, err)
	}
	lock := flock.New(filepath.Join(string(h), "enroll.lock"))
	if ok, err := lock.TryLockContext(ctx, lockPoll); err != nil || !ok {
		return Result{}, fmt.Errorf("wait for another enrollment: %w", errors.Join(err, context.Cause(ctx)))
	}
	defer lock.Unlock() //nolint:errcheck // closing the file releases it as well
	old, found, err := h.enrolled(req)
	if err != nil {
		return Result{}, err
	}
	if !found {
		return h.exchange(ctx, req)
	}
	if req.Runtime == "" {
		req.Runtime = old.Runtime
	}
	if old.HostID != req.HostID && old.HostID != "" {
		if req.Key == "" {
			return Result{}, fault.New(fault.Unauthenticated, "this folder was enrolled on another computer (%s), and no key was given for this one", old.Name).
				WithHint("export INTERLOCK_MODEL_KEY first; print a fresh line with: %s", freshLine(req))
		}
		res, err := h.exchange(ctx, req)
		res.Note = "the folder came from another computer; this one is enrolled by itself"
		return res, err
	}
	note, again, err := old.stands(ctx, req)
	if err != nil {
		return Result{}, err
	}
	if again {
		res, err := h.exchange(ctx, req)
		res.Note = note
		return res, err
	}
	return Result{Enrollment: old, Kept: true, Note: old.keepsRuntime(note, req)}, nil
}

// keepsRuntime adds to the note that another runtime was asked for than the one the machine was enrolled
// with: the control plane deploys to it by that one.
func (e Enrollment) keepsRuntime(note string, req Request) string {
	if req.Runtime == e.Runtime {
		return note
	}
	if note != "" {
		note += "; "
	}
	return note + fmt.Sprintf("it was enrolled with runtime %s and goes on with that, not with %s: to change it, interlock models machine revoke %s, then paste a line of interlock models key rotate %s --group %s with --runtime %s added",
		e.Runtime, req.Runtime, e.Machine, e.Role, e.Group, req.Runtime)
}

func (r *Request) check() error {
	r.Origin = strings.TrimRight(r.Origin, "/")
	switch {
	case r.Origin == "":
		return fault.New(fault.Invalid, "no control plane is named").WithField("url").WithHint("--url https://…")
	case r.Group == "":
		return fault.New(fault.Invalid, "no group is named").WithField("group").WithHint("--group <name or id>")
	case !r.Role.Valid():
		return fault.New(fault.Invalid, "role %q is neither client nor trainer", r.Role).WithField("role")
	case r.Runtime != "" && !r.Runtime.Valid():
		return fault.New(fault.Invalid, "runtime %q is neither %s nor %s", r.Runtime, fleet.LlamaCpp, fleet.MLXLM).WithField("runtime")
	}
	return nil
}

// lockPoll is how often a taken lock is tried again.
const lockPoll = 100 * time.Millisecond

// enrolled finds the enrollment of the same origin, group and role. With a key, a damaged folder is no
// hindrance: the exchange writes it anew. One of a newer version is not touched.
func (h Home) enrolled(req Request) (Enrollment, bool, error) {
	all, err := h.List()
	for _, e := range all {
		if e.Origin == req.Origin && e.Role == req.Role && (e.Group == req.Group || e.GroupName == req.Group) {
			return e, true, nil
		}
	}
	if req.Key != "" && errors.Is(err, errDamaged) && !errors.Is(err, errNewer) {
		err = nil
	}
	return Enrollment{}, false, err
}

// stands asks the control plane whether the stored credential is still good. A control plane that
// cannot be reached is no reason to throw a credential away; one that does not know the credential is
// as one that revoked it.
func (e Enrollment) stands(ctx context.Context, req Request) (note string, again bool, err error) {
	c, err := e.Client(req.Version)
	if err != nil {
		return "", false, err
	}
	defer c.Close()
	_, err = c.Self(ctx)
	word, worthless := "revoked", errors.Is(err, fault.Revoked)
	if errors.Is(err, fault.Unauthenticated) {
		word, worthless = "unknown to the control plane", true
	}
	switch {
	case err == nil && req.Key != "":
		return "this machine is enrolled already: it keeps its credential, the key was not used", false, nil
	case err == nil:
		return "", false, nil
	case worthless && req.Key != "":
		return "the earlier credential was " + word + "; the key was exchanged for a new one", true, nil
	case worthless:
		return "", false, fault.Wrap(err, fault.CodeOf(err), "the credential of this machine was %s", word).
			WithHint("print a fresh line: %s", freshLine(req))
	}
	return fmt.Sprintf("the control plane could not be asked (%v): the credential is kept", err), false, nil
}

// exchange trades the bootstrap key, once.
func (h Home) exchange(ctx context.Context, req Request) (Result, error) {
	if req.Key == "" {
		return Result{}, fault.New(fault.Unauthenticated, "this machine is not enrolled in %s at %s, and no key was given", req.Group, req.Origin).
			WithHint("export INTERLOCK_MODEL_KEY first; print a fresh line with: %s", freshLine(req))
	}
	if req.Runtime == "" {
		req.Runtime = fleet.LlamaCpp
	}
	c, err := client.New(client.Options{
		BaseURL: req.Origin, Credential: req.Key, Pin: req.Pin, InsecureHTTP: req.InsecureHTTP, UserAgent: "interlock-agent/" + req.Version,
	})
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	out, err := c.Enroll(ctx, fleet.EnrollRequest{
		Group: req.Group, Role: req.Role, Runtime: req.Runtime, Name: req.Name, HostID: req.HostID, Host: req.Host, Version: req.Version,
	})
	if err != nil {
		return Result{}, err
	}
	if err := checkFolder(out.Group); err != nil {
		return Result{}, err
	}
	e := Enrollment{
		Home: h, Group: out.Group, GroupName: out.GroupName, Project: out.Project, Origin: req.Origin, Pin: req.Pin, InsecureHTTP: req.InsecureHTTP,
		Role: out.Role, Runtime: out.Runtime, Machine: out.Machine, Name: req.Name, HostID: req.HostID,
	}
	return Result{Enrollment: e}, e.save(out.Credential)
}

// freshLine is the command that prints a line to paste for this role.
func freshLine(r Request) string {
	return fmt.Sprintf("interlock models key rotate %s --group %s", r.Role, shellWord(r.Group))
}

// shellWord is a word to paste into a shell, in quotes when it needs them.
func shellWord(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.", r))
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// checkFolder refuses a group id that would lead out of the folder of groups: what a control plane says
// is not trusted with paths.
func checkFolder(id string) error {
	if err := fleet.CheckFileName("group", id); err != nil {
		return fmt.Errorf("the control plane named a group that cannot be a folder: %w", err)
	}
	return nil
}
