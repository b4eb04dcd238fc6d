package client

import (
	"context"
	"net/http"
)

// Healthy asks whether the control plane serves; nil says that it does. It needs no credential.
func (c *Client) Healthy(ctx context.Context) error {
	return c.Do(ctx, http.MethodGet, "/q/health", nil, nil)
}
