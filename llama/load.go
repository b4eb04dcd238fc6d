package llama

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// Load is how busy a server is. What it does not tell is nil, never 0.
type Load struct {
	Slots  *int // requests at once
	Busy   *int // slots that work
	Queued *int // requests that wait for a slot
	// TokensPerSecond and PromptPerSecond are averages of a slot since Load was last asked; nil when
	// nothing was computed since.
	TokensPerSecond *float64
	PromptPerSecond *float64
	// Tokens and TokenSeconds count generated tokens since the start and the time they took.
	Tokens       *float64
	TokenSeconds *float64
}

// Load reads /slots and /metrics. A build or a server that does not offer one of them leaves its
// fields nil; an error means that the server did not answer.
func (c *Client) Load(ctx context.Context) (Load, error) {
	var l Load
	var slots []struct {
		Busy bool `json:"is_processing"`
	}
	switch err := c.get(ctx, "/slots", &slots); {
	case err == nil:
		total, busy := len(slots), 0
		for _, s := range slots {
			if s.Busy {
				busy++
			}
		}
		l.Slots, l.Busy = &total, &busy
	case !notOffered(err):
		return Load{}, err
	}
	status, answer, err := c.fetch(ctx, http.MethodGet, "/metrics", c.key, nil)
	if err != nil {
		return Load{}, err
	}
	if status != http.StatusOK {
		if err := (&statusError{"/metrics", status, reason(answer)}); !notOffered(err) {
			return Load{}, err
		}
		return l, nil
	}
	l.metrics(answer)
	return l, nil
}

// notOffered says that the server answered and has no such thing.
func notOffered(err error) bool {
	var s *statusError
	return errors.As(err, &s) && (s.status == http.StatusNotFound || s.status == http.StatusNotImplemented)
}

// metrics reads the Prometheus text. The averages are 0 when nothing was computed since the last
// reading, which is no speed.
func (l *Load) metrics(text []byte) {
	scan := bufio.NewScanner(bytes.NewReader(text))
	for scan.Scan() {
		name, value, ok := strings.Cut(scan.Text(), " ")
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if !ok || err != nil {
			continue
		}
		switch name {
		case "llamacpp:predicted_tokens_seconds":
			l.TokensPerSecond = positive(v)
		case "llamacpp:prompt_tokens_seconds":
			l.PromptPerSecond = positive(v)
		case "llamacpp:requests_deferred":
			n := int(v)
			l.Queued = &n
		case "llamacpp:tokens_predicted_total":
			l.Tokens = &v
		case "llamacpp:tokens_predicted_seconds_total":
			l.TokenSeconds = &v
		}
	}
}

func positive(v float64) *float64 {
	if v > 0 {
		return &v
	}
	return nil
}
