package api

import (
	"net/http"

	"interlock.sh/installer"
)

// asset serves the install script and the builds that the server offers.
func (a *API) asset(w http.ResponseWriter, r *http.Request) error {
	return a.serveAsset(w, r, r.PathValue("name"))
}

// manifest serves the list of builds with their digests.
func (a *API) manifest(w http.ResponseWriter, r *http.Request) error {
	return a.serveAsset(w, r, installer.ManifestName)
}

func (a *API) serveAsset(w http.ResponseWriter, r *http.Request, name string) error {
	f, err := installer.OpenAsset(a.info.Assets, name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, name, f.ModTime, f)
	return nil
}
