//go:build linux

package e2e

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/client"
)

// The disk of a control plane is lost, and a backup is all that is left: on an empty folder it is the same
// server again. Who pinned its key is let in, the owner's login holds, and the signed releases are served,
// so no machine has to enroll again and none stops to update.
func TestBackupBringsAControlPlaneBack(t *testing.T) {
	t.Parallel()
	p := newPlane(t, "--tls-self-signed")
	p.pin = "sha256//" + p.says("pin sha256//")
	p.signIn()
	if got := p.cliWith(nil, p.token+"\n", "login", "--pin", p.pin); got.code != 0 {
		t.Fatal(got.err)
	}
	dist := filepath.Join(p.dir, "dist")
	if err := os.Mkdir(dist, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(assets, "interlock-"+platform), filepath.Join(dist, "interlock-"+platform)); err != nil {
		t.Fatal(err)
	}
	p.release(passphrase(passphrases...), "keys", "init", "--scrypt-work", "14")
	p.ok("release", "build", "--dist", dist, "--version", version)
	p.release(passphrase("targets-1"), "sign", dist)
	p.release(passphrase("snapshot-1", "timestamp-1"), "publish", "--api", p.base)
	const timestamp, asset = "/model-worker/tuf/metadata/timestamp.json", "/assets/interlock-" + platform
	before := map[string]string{timestamp: p.fetch(timestamp), asset: p.fetch(asset)}

	data := filepath.Join(p.dir, "data")
	made := fromJSON[struct{ Dir string }](p, "serve", "backup", "--data", data)
	p.serve.stop()
	lost := data + "-lost"
	if err := os.Rename(data, lost); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(lost, strings.TrimPrefix(made.Dir, data))
	p.prints("has the database, tls, releases/metadata of", "serve", "restore", "--data", data, "--from", backup, "--yes")
	list, err := os.ReadFile(filepath.Join(backup, "blobs.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		to := filepath.Join(data, "files", "blobs", name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(lost, "files", "blobs", name), to); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(lost); err != nil {
		t.Fatal(err)
	}

	p.restart()
	p.prints("account", "whoami")
	for path, want := range before {
		if got := p.fetch(path); got != want {
			t.Errorf("%s is now %.200s, was %.200s", path, got, want)
		}
	}
}

// fetch gets a path as a machine does that trusts the server's key alone; of what is large it gives the digest.
func (p *plane) fetch(path string) string {
	p.t.Helper()
	c, err := client.New(client.Options{BaseURL: p.base, Pin: p.pin})
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	answer, err := c.Open(p.t.Context(), http.MethodGet, path)
	if err != nil {
		p.t.Fatalf("%s: %v", path, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatalf("%s: %v", path, err)
	}
	if len(text) > 64<<10 {
		return fmt.Sprintf("%x", sha256.Sum256(text))
	}
	return string(text)
}
