package client

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
)

const releasesPath = "/api/releases/metadata/"

// PutReleaseMetadata sends one signed metadata file of a release repository, byte for byte. The control
// plane shows nothing of it before the timestamp is there and everything that it names is in order.
func (c *Client) PutReleaseMetadata(ctx context.Context, file string, text []byte) error {
	o := newCall([]CallOption{WithRetry(8), WithHeader("Content-Type", "application/octet-stream")})
	path := releasesPath + url.PathEscape(file)
	return c.repeat(ctx, o, http.MethodPut+" "+path, func() error {
		try, cancel := context.WithTimeoutCause(ctx, o.timeout, noAnswer(c.base, o.timeout))
		defer cancel()
		resp, err := c.send(try, http.MethodPut, path, bytes.NewReader(text), int64(len(text)), o)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return c.decode(try, resp, nil)
	})
}
