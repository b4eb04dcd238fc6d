package client

import (
	"context"
	"net/http"
	"regexp"
	"strconv"

	"interlock.sh/fault"
)

// Opener asks a source for its bytes from offset on. It returns the raw 2xx answer, of which Fetch
// believes nothing unchecked, or an error; see Transient for those after which Fetch tries again.
type Opener func(ctx context.Context, offset int64) (*http.Response, error)

// checkAnswer makes sure that the answer's first byte is the one at the partial's end.
func (d *download) checkAnswer(resp *http.Response) error {
	if isHTML(resp.Header) {
		return interposed(resp, resp.Request.URL.Host)
	}
	switch resp.StatusCode {
	case http.StatusOK:
		if resp.ContentLength >= 0 && resp.ContentLength != d.want.Size {
			return d.wrongSize(resp.ContentLength)
		}
		if d.part.size > 0 { // Range was ignored: the bytes begin at zero
			return d.reset()
		}
		return nil
	case http.StatusPartialContent:
		from, total, ok := contentRange(resp.Header.Get("Content-Range"))
		if ok && total >= 0 && total != d.want.Size {
			return d.wrongSize(total)
		}
		if !ok || from != d.part.size {
			return d.startOver(fault.New(fault.Unavailable, "the source answered the range %q where byte %d was asked for",
				resp.Header.Get("Content-Range"), d.part.size))
		}
		return nil
	}
	return fault.New(fault.Unavailable, "the source answered with status %d", resp.StatusCode)
}

func (d *download) wrongSize(size int64) error {
	return fault.New(fault.HashMismatch, "the source has %d bytes, %d are expected", size, d.want.Size).
		With("expected", d.want.Size).With("got", size).
		WithHint("the source holds another file than the release names")
}

var rangePattern = regexp.MustCompile(`^bytes (\d+)-\d+/(\d+|\*)$`)

// contentRange reads "bytes 5-9/10"; total is -1 when the source does not tell it.
func contentRange(v string) (from, total int64, ok bool) {
	m := rangePattern.FindStringSubmatch(v)
	if m == nil {
		return 0, 0, false
	}
	from, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0, 0, false
	}
	if m[2] == "*" {
		return from, -1, true
	}
	total, err = strconv.ParseInt(m[2], 10, 64)
	return from, total, err == nil
}
