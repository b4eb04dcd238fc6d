package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

const maxACMEBody = 1 << 20 // bytes of an authority's answer

// acmeWire carries the requests to an authority. It ends them when the server goes down, since the library
// waits without a context, and it remembers why a challenge failed, which the library keeps to itself.
type acmeWire struct {
	next http.RoundTripper
	life context.Context
	cut  context.CancelFunc // ends what is under way, and refuses what comes

	mu     sync.Mutex
	detail string
}

func newACMEWire(next http.RoundTripper) *acmeWire {
	w := &acmeWire{next: next}
	w.life, w.cut = context.WithCancel(context.Background())
	return w
}

// RoundTrip makes one request and reads its whole answer.
func (w *acmeWire) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	defer context.AfterFunc(w.life, cancel)()
	resp, err := w.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxACMEBody))
	if err != nil {
		return nil, fmt.Errorf("read the authority's answer: %w", err)
	}
	w.hear(b)
	resp.Body = io.NopCloser(bytes.NewReader(b))
	return resp, nil
}

// hear looks for the reasons of failed challenges in an answer.
func (w *acmeWire) hear(body []byte) {
	var authz struct {
		Challenges []struct {
			Type  string `json:"type"`
			Error struct {
				Detail string `json:"detail"`
			} `json:"error"`
		} `json:"challenges"`
	}
	if json.Unmarshal(body, &authz) != nil {
		return
	}
	for _, c := range authz.Challenges {
		if c.Error.Detail != "" {
			w.mu.Lock()
			w.detail = strings.ToValidUTF8(c.Type+": "+c.Error.Detail, "?")
			w.mu.Unlock()
		}
	}
}

// said is why the newest challenge failed, once.
func (w *acmeWire) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.detail = "" }()
	return w.detail
}
