package client_test

import (
	"net/http"
	"testing"

	"interlock.sh/client"
	"interlock.sh/fault"
)

// An answer that was cut after its header still means what its status says: an upload goes on from where
// the server is, also when it never read why its offset was refused.
func TestATornRefusalMeansWhatItsStatusSays(t *testing.T) {
	for _, code := range []fault.Code{
		fault.Unauthenticated, fault.ScopeDenied, fault.NotFound, fault.WrongMethod, fault.Conflict, fault.TooLarge,
		fault.RangeUnsatisfiable, fault.RateLimited, fault.Unavailable,
	} {
		c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(code.Status())
			_, _ = w.Write([]byte(`{"error":{"co`))
		})
		err := c.Do(t.Context(), "PUT", "/api/blobs/uploads/x", nil, nil)
		if fault.CodeOf(err) != code || client.StatusOf(err) != code.Status() {
			t.Errorf("a torn %d: %v is %s, want %s", code.Status(), err, fault.CodeOf(err), code)
		}
	}
}
