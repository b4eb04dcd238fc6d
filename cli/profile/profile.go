// Package profile decides which control plane a program talks to and as whom. It owns the two profile
// files below ~/.interlock, the .interlock-key file of a project folder, and the order in which flags,
// environment and files win. It never connects anywhere, and it never prints a secret.
package profile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"interlock.sh/fault"
)

// Name says which of the two profiles is meant.
type Name string

// The two profiles: the production fleet, and a server on the developer's own machine.
const (
	Prod  Name = "prod"
	Local Name = "local"
)

// DefaultAPI is the control plane when nothing names another.
const DefaultAPI = "http://localhost:8090"

// LocalProgram is the name that, when a program is called by it, means the local profile.
const LocalProgram = "interlock-local"

// Source says where the credential in play came from.
type Source string

// The places of a credential, the first one wins.
const (
	FromEnv     Source = "INTERLOCK_SDK_KEY"
	FromKeyFile Source = ".interlock-key"
	FromProfile Source = "profile"
	FromNowhere Source = "none"
)

// Flags is what the command line says; empty fields say nothing.
type Flags struct {
	API          string // --api
	Project      string // --project
	Pin          string // --pin
	Local        bool   // --local
	InsecureHTTP bool   // --insecure-http
	Program      string // argv[0]; its base name may choose the local profile
	// Mend treats a profile file that cannot be read or understood as absent, with a warning: for the
	// login that is about to replace it.
	Mend bool
}

// Env is what the process finds around it.
type Env struct {
	Home   string // home folder; empty when there is none
	Dir    string // working folder, absolute
	Getenv func(string) string
}

// OSEnv is the environment of this process.
func OSEnv() (Env, error) {
	dir, err := os.Getwd()
	if err != nil {
		return Env{}, fmt.Errorf("find the working folder: %w", err)
	}
	// Without a home there is no profile; everything else works, so it is no error here.
	home, _ := os.UserHomeDir()
	return Env{Home: home, Dir: dir, Getenv: os.Getenv}, nil
}

// Resolved is the answer: whom to call, as whom, and why.
type Resolved struct {
	Profile Name
	Path    string // the profile's file, whether or not it exists
	Config  Config // its content; zero when it is absent

	BaseURL      string
	Pin          string
	InsecureHTTP bool

	Credential       string
	CredentialSource Source
	KeyDir           string // folder whose .interlock-key is in play
	Project          string

	// Warnings are sentences for the user, without a secret in them.
	Warnings []string
}

// Target resolves the profile and the server, and leaves the credential out: for commands that need
// none.
func Target(f Flags, env Env) (Resolved, error) {
	r := Resolved{Profile: Prod, CredentialSource: FromNowhere}
	switch p := env.Getenv("INTERLOCK_PROFILE"); p {
	case "", string(Prod):
	case string(Local):
		r.Profile = Local
	default:
		return r, fault.New(fault.Invalid, "INTERLOCK_PROFILE is %q; the profiles are %s and %s", p, Prod, Local).
			WithField("INTERLOCK_PROFILE").WithHint("set one of the two, or unset it")
	}
	program := strings.TrimSuffix(filepath.Base(f.Program), ".exe")
	if f.Local || program == LocalProgram {
		r.Profile = Local
	}
	if env.Home != "" {
		r.Path = filepath.Join(env.Home, ".interlock", r.Profile.fileName())
		cfg, warn, err := load(r.Path)
		switch {
		case err != nil && !f.Mend:
			return r, err
		case err != nil:
			r.Warnings = append(r.Warnings, err.Error())
		default:
			r.Config = cfg
			r.Warnings = append(r.Warnings, warn...)
		}
	}
	r.BaseURL = firstOf(f.API, env.Getenv("INTERLOCK_URL"), r.Config.API, DefaultAPI)
	r.InsecureHTTP = f.InsecureHTTP
	r.Pin = f.Pin
	if r.atProfile() { // trust given to one server is not trust in another
		r.InsecureHTTP = r.InsecureHTTP || r.Config.InsecureHTTP
		r.Pin = firstOf(r.Pin, r.Config.Pin)
	}
	return r, nil
}

// Resolve is Target with the credential of ordinary commands: INTERLOCK_SDK_KEY, then the nearest
// .interlock-key upwards, then the profile's token. A stored credential goes only to the server that
// it was stored for; a warning says when one was held back.
func Resolve(f Flags, env Env) (Resolved, error) {
	r, err := Target(f, env)
	if err != nil {
		return r, err
	}
	r.Project = f.Project
	if key := strings.TrimSpace(env.Getenv("INTERLOCK_SDK_KEY")); key != "" {
		r.Credential, r.CredentialSource = key, FromEnv
		return r, nil
	}
	key, found, err := findKey(env.Dir)
	if err != nil {
		return r, err
	}
	if found {
		r.Warnings = append(r.Warnings, key.warnings...)
		if key.api == "" || SameServer(key.api, r.BaseURL) {
			r.Credential, r.CredentialSource, r.KeyDir = key.secret, FromKeyFile, filepath.Dir(key.path)
			r.Project = firstOf(r.Project, key.project)
			return r, nil
		}
		r.Warnings = append(r.Warnings, fmt.Sprintf(
			"the key in %s is for %s and was not sent to %s (name its server with --api, or give a key of this one by INTERLOCK_SDK_KEY)",
			key.path, key.api, r.BaseURL))
	}
	if r.Config.Token == "" {
		return r, nil
	}
	if !r.atProfile() {
		r.Warnings = append(r.Warnings, fmt.Sprintf(
			"the login of profile %s is for %s and was not sent to %s (sign in there with `interlock login --api %s`)",
			r.Profile, r.Config.server(), r.BaseURL, r.BaseURL))
		return r, nil
	}
	r.Credential, r.CredentialSource = r.Config.Token, FromProfile
	r.Project = firstOf(r.Project, r.Config.Project)
	return r, nil
}

func (r Resolved) atProfile() bool { return SameServer(r.Config.server(), r.BaseURL) }

func firstOf(values ...string) string {
	for _, v := range values {
		if v = strings.TrimSpace(v); v != "" {
			return v
		}
	}
	return ""
}
