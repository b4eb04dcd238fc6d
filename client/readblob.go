package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"

	"interlock.sh/fault"
)

// ReadBlob reads a small blob into memory and checks it. Use Download for what is not small.
func (c *Client) ReadBlob(ctx context.Context, want Ref) ([]byte, error) {
	if err := want.check(); err != nil {
		return nil, err
	}
	resp, err := c.Open(ctx, http.MethodGet, blobsPath+want.SHA256)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(resp.Body, want.Size+1))
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "read blob %s: %v", want.SHA256, err)
	}
	sum := sha256.Sum256(b)
	if got := hex.EncodeToString(sum[:]); got != want.SHA256 {
		return nil, fault.New(fault.HashMismatch, "blob %s came with SHA-256 %s", want.SHA256, got)
	}
	return b, nil
}
