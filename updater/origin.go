package updater

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/client"
	"interlock.sh/fault"
)

// DefaultPath is where a control plane serves its copy of the repository.
const DefaultPath = "/model-worker/tuf"

// Origin is one mirror of the repository. The client carries how it is reached: pin, proxy, plain http.
type Origin struct {
	Name   string // what reports call it: its address
	Client *client.Client
	Path   string // of the repository below its address; "" is DefaultPath
}

func (o Origin) path(kind, file string) string {
	base := o.Path
	if base == "" {
		base = DefaultPath
	}
	return base + "/" + kind + "/" + file
}

// Bounds of what a mirror may make this machine read, and for how long it may keep it waiting.
const (
	maxRoot       = 512 << 10
	maxTimestamp  = 16 << 10
	maxSnapshot   = 2 << 20
	maxTargets    = 5 << 20
	maxTarget     = 1 << 30
	maxRotations  = 256
	metadataLimit = 30 * time.Second // for one metadata file, whole
	stallLimit    = 30 * time.Second // for each stallBytes of a target
	stallBytes    = 32 << 10
	targetLimit   = 2 * time.Hour
)

// patience is how long a mirror may take.
type patience struct {
	metadata, stall, target time.Duration
}

var usualPatience = patience{metadataLimit, stallLimit, targetLimit}

// fetcher reads metadata from an origin for go-tuf, within bounds of length and time.
type fetcher struct {
	ctx    context.Context //nolint:containedctx // go-tuf's interface has none; a fetcher lives for one refresh
	origin Origin
	within time.Duration
}

// DownloadFile reads one metadata file of at most limit bytes.
func (f fetcher) DownloadFile(path string, limit int64, _ time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(f.ctx, f.within, tooSlow(f.origin, path, f.within))
	defer cancel()
	resp, err := f.origin.Client.Open(ctx, http.MethodGet, path)
	if err != nil {
		if code := client.StatusOf(err); code != 0 {
			return nil, &metadata.ErrDownloadHTTP{StatusCode: code, URL: path}
		}
		return nil, causeOf(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode != http.StatusOK {
		return nil, &metadata.ErrDownloadHTTP{StatusCode: resp.StatusCode, URL: path}
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, causeOf(ctx, fmt.Errorf("read %s: %w", path, err))
	}
	if int64(len(data)) > limit {
		return nil, &metadata.ErrDownloadLengthMismatch{Msg: fmt.Sprintf("%s is larger than the %d bytes that are allowed", path, limit)}
	}
	return data, nil
}

func tooSlow(o Origin, path string, within time.Duration) error {
	return fault.New(fault.Unavailable, "%s did not send %s within %v", o.Name, path, within).
		WithHint("check the network between here and there")
}

// causeOf is why the context ended, when that is what failed the call.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// watched reads a body and ends its request when it comes in too slowly: each stallBytes must arrive
// within the limit, and all of it within another. Only the time that the sender takes counts, not the one
// that the pace takes.
type watched struct {
	io.Reader
	timer   *time.Timer
	allowed patience
	left    time.Duration // for these stallBytes
	whole   time.Duration // for all of it
	since   int
	late    error             // there was too little time for the whole
	pace    func(n int) error // waits until so many bytes may have come; nil does not
}

func watch(allowed patience, cancel func(), late error) *watched {
	return &watched{timer: time.AfterFunc(allowed.stall, cancel), allowed: allowed, left: allowed.stall, whole: allowed.target, late: late}
}

// Read passes bytes on and, each time enough of them came, gives the sender more time.
func (w *watched) Read(p []byte) (int, error) {
	begin := time.Now()
	w.timer.Reset(w.left)
	n, err := w.Reader.Read(p)
	w.timer.Stop()
	took := time.Since(begin)
	w.left, w.whole = w.left-took, w.whole-took
	if w.since += n; w.since >= stallBytes {
		w.since, w.left = 0, w.allowed.stall
	}
	switch {
	case err != nil:
		return n, err
	case w.whole <= 0:
		return n, w.late
	case w.pace != nil:
		return n, w.pace(n)
	}
	return n, nil
}

func (w *watched) stop() { w.timer.Stop() }

// errUnoffered is in the error of an origin that has no repository. Where none ever had one that is no fault: a
// control plane need not sign its releases.
var errUnoffered = errors.New("no signed releases")

func unoffered(cause error, format string, args ...any) error {
	return fault.Wrap(errors.Join(errUnoffered, cause), fault.NotFound, format, args...).
		WithHint("its operator publishes them: interlock release publish")
}

// explain puts what go-tuf refused into words for people. Nothing here stops a program that runs.
func explain(o Origin, err error) error {
	var http *metadata.ErrDownloadHTTP
	switch {
	case err == nil:
		return nil
	case errors.Is(err, &metadata.ErrExpiredMetadata{}):
		e := fault.Wrap(err, fault.Conflict, "the release metadata of %s has expired: %v", o.Name, err)
		if skew := o.Client.ServerTimeSkew(); skew.Abs() > 2*time.Minute {
			return e.WithHint("this machine's clock differs from its clock by %v: set the clock first, for example: timedatectl set-ntp true", skew.Round(time.Minute))
		}
		return e.WithHint("what is installed goes on; its operator renews the metadata: interlock release refresh, or for the root: interlock release keys rotate")
	case errors.Is(err, &metadata.ErrBadVersionNumber{}):
		return fault.Wrap(err, fault.Conflict, "%s offers older metadata than this machine has seen: %v", o.Name, err).
			WithHint("it lags behind, or somebody plays back an old copy; nothing of it is used")
	case errors.Is(err, &metadata.ErrUnsignedMetadata{}):
		return fault.Wrap(err, fault.Conflict, "the releases of %s are not signed by the keys that this machine trusts: %v", o.Name, err).
			WithHint("nothing of it is used; ask its operator whether the keys changed")
	case errors.Is(err, &metadata.ErrLengthOrHashMismatch{}), errors.Is(err, &metadata.ErrDownloadLengthMismatch{}):
		return fault.Wrap(err, fault.HashMismatch, "what %s sent is not what was signed: %v", o.Name, err).
			WithHint("nothing of it is used; its operator publishes the release again")
	case errors.As(err, &http) && http.StatusCode == 404 && path.Base(http.URL) == "timestamp.json":
		return unoffered(err, "%s offers no signed releases (%s is not there)", o.Name, http.URL)
	case errors.As(err, &http) && http.StatusCode == 404:
		return fault.Wrap(err, fault.NotFound, "%s offers no signed releases (%s is not there)", o.Name, http.URL).
			WithHint("its operator publishes them: interlock release publish")
	case errors.As(err, &http):
		return fault.Wrap(err, fault.Unavailable, "%s answered %d for %s", o.Name, http.StatusCode, http.URL)
	}
	var coded *fault.Error
	if errors.As(err, &coded) {
		return coded
	}
	return fault.Wrap(err, fault.Conflict, "what %s sent is no release metadata: %v", o.Name, err).
		WithHint("something in between may have answered in its place, such as a login page of the network")
}
