package api

import (
	"net/http"

	"interlock.sh/installer"
)

// asset serves the install script and the builds that the server offers: what is released and signed,
// else what its folder of assets holds.
func (a *API) asset(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if pointer, ok := a.Releases.Pointer(name); ok {
		return giveManifest(w, pointer)
	}
	if f, known, err := a.Releases.Asset(name); known {
		if err != nil {
			return err
		}
		return serveProgram(w, r, f, "") // another version has the same name later
	}
	return a.serveAsset(w, r, name)
}

// manifest serves the list of builds with their digests.
func (a *API) manifest(w http.ResponseWriter, r *http.Request) error {
	if m, ok := a.Releases.Manifest(); ok {
		return giveManifest(w, m)
	}
	return a.serveAsset(w, r, installer.ManifestName)
}

func giveManifest(w http.ResponseWriter, m installer.Manifest) error {
	w.Header().Set("Cache-Control", "no-cache")
	writeJSON(w, http.StatusOK, m)
	return nil
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
