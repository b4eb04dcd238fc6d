package tasks

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"interlock.sh/fault"
)

// Limits and defaults of the tasks API.
const (
	DefaultPool        = "default"
	DefaultMaxAttempts = 3
	MaxAttemptsLimit   = 100
	MaxPriority        = 9
	MaxInline          = 256 << 10 // bytes of an input or a result
	MaxCorrelations    = 16
	MaxKeyLength       = 200 // of an idempotency key, pool, worker id, correlation
	MaxClaim           = 100
	MaxBatch           = 200 // attempts in one renew or complete
	MaxLogLine         = 8 << 10
	MaxDelta           = 64 << 10

	Lease       = 30 * time.Second // judged by the store's clock
	LongPoll    = 25 * time.Second
	SeenFor     = 90 * time.Second // a worker not seen for this long is offline
	RegisterGap = 30 * time.Second
)

var typePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*$`)

// CheckType refuses a type that breaks the naming rule, the version suffix above all.
func CheckType(typ string, version int) error {
	if base, suffix, found := strings.Cut(typ, "@"); found {
		return fault.New(fault.UnknownTaskType, "task type %q carries a version; the version is the separate integer field schemaVersion", typ).
			WithField("type").WithHint("send type %q and schemaVersion %s", base, suffix)
	}
	if len(typ) > MaxKeyLength || !typePattern.MatchString(typ) {
		return fault.New(fault.UnknownTaskType, "task type %q is not lower-case words of [a-z0-9._-] joined by /", typ).
			WithField("type").WithHint("for example audio/transcribe")
	}
	if version < 1 {
		return fault.New(fault.Invalid, "schemaVersion is %d; it counts from 1", version).WithField("schemaVersion")
	}
	return nil
}

// Normalize fills in the defaults of a request and refuses what breaks a rule.
func (r *SubmitRequest) Normalize() error {
	if err := CheckType(r.Type, r.SchemaVersion); err != nil {
		return err
	}
	if r.Pool == "" {
		r.Pool = DefaultPool
	}
	if r.MaxAttempts == 0 {
		r.MaxAttempts = DefaultMaxAttempts
	}
	switch {
	case len(r.Input) > MaxInline:
		return fault.New(fault.TooLarge, "input is %d bytes; the inline limit is %d", len(r.Input), MaxInline).
			WithField("input").With("limit", MaxInline).With("size", len(r.Input)).
			WithHint("store the bytes as a file and submit its hash, size and type")
	case r.Priority < 0 || r.Priority > MaxPriority:
		return fault.New(fault.Invalid, "priority is %d; it goes from 0 to %d", r.Priority, MaxPriority).WithField("priority")
	case r.MaxAttempts < 1 || r.MaxAttempts > MaxAttemptsLimit:
		return fault.New(fault.Invalid, "maxAttempts is %d; it goes from 1 to %d", r.MaxAttempts, MaxAttemptsLimit).WithField("maxAttempts")
	case r.DelayMs < 0:
		return fault.New(fault.Invalid, "delayMs is %d; a delay is not negative", r.DelayMs).WithField("delayMs")
	case r.ExpiresInMs < 0:
		return fault.New(fault.Invalid, "expiresInMs is %d; a deadline is not negative", r.ExpiresInMs).WithField("expiresInMs")
	case len(r.Correlations) > MaxCorrelations:
		return fault.New(fault.Invalid, "%d correlations; the limit is %d", len(r.Correlations), MaxCorrelations).WithField("correlations")
	}
	for field, set := range map[string]bool{
		"runAt": r.RunAt != "", "concurrencyKey": r.ConcurrencyKey != "", "tags": len(r.Tags) > 0, "parentId": r.ParentID != "",
	} {
		if set {
			return fault.New(fault.Invalid, "%s is reserved for a later version of the tasks API", field).WithField(field).WithHint("leave it out")
		}
	}
	if err := CheckLabel("pool", r.Pool, true); err != nil {
		return err
	}
	if err := CheckLabel("idempotencyKey", r.IdempotencyKey, false); err != nil {
		return err
	}
	for k, v := range r.Correlations {
		if err := CheckLabel("correlations."+k, k, true); err != nil {
			return err
		}
		if err := CheckLabel("correlations."+k, v, false); err != nil {
			return err
		}
	}
	return nil
}

// CheckLabel refuses a label that is too long, not UTF-8, has control characters, or is empty when
// that is required.
func CheckLabel(field, v string, required bool) error {
	switch {
	case required && v == "":
		return fault.New(fault.Invalid, "%s is empty", field).WithField(field)
	case len(v) > MaxKeyLength:
		return fault.New(fault.Invalid, "%s is %d bytes; the limit is %d", field, len(v), MaxKeyLength).WithField(field)
	case !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fault.New(fault.Invalid, "%s has control characters or is not UTF-8", field).WithField(field)
	}
	return nil
}
