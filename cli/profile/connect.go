package profile

import (
	"interlock.sh/client"
	"interlock.sh/fault"
)

// Client makes the client of the resolved server with the resolved credential. It does not connect.
func (r Resolved) Client(userAgent string) (*client.Client, error) {
	return client.New(client.Options{
		BaseURL: r.BaseURL, Credential: r.Credential, Pin: r.Pin, InsecureHTTP: r.InsecureHTTP,
		UserAgent: userAgent, Project: r.Project,
	})
}

// Describe says in words which credential is in play.
func (r Resolved) Describe() string {
	switch r.CredentialSource {
	case FromEnv:
		return "the key in INTERLOCK_SDK_KEY"
	case FromKeyFile:
		return "the key in " + r.KeyDir + "/" + KeyFileName
	case FromProfile:
		return "the login of profile " + string(r.Profile)
	}
	return "no credential"
}

// NeedCredential refuses when there is nothing to sign a call with, and says how to get something.
func (r Resolved) NeedCredential() error {
	if r.Credential != "" {
		return nil
	}
	return fault.New(fault.Unauthenticated, "not signed in to %s: profile %s has no login for it, and no project key is in play", r.BaseURL, r.Profile).
		WithHint("run `%s login --api %s`", r.program(), r.BaseURL)
}

// Explain adds to a refusal for want of authority which credential was refused: a project's key in
// the environment or in a folder wins over the login, which surprises people.
func (r Resolved) Explain(err error) error {
	f := fault.Of(err)
	switch {
	case err == nil, f.Code != fault.ScopeDenied && f.Code != fault.Unauthenticated && f.Code != fault.Revoked:
		return err
	case r.CredentialSource == FromEnv:
		return f.WithHint("this was asked with %s, which wins over the login: unset it to act as your account", r.Describe())
	case r.CredentialSource == FromKeyFile:
		return f.WithHint("this was asked with %s, which wins over the login: leave that folder to act as your account", r.Describe())
	case r.CredentialSource == FromProfile && f.Code != fault.ScopeDenied:
		return f.WithHint("sign in again with `%s login --api %s`", r.program(), r.BaseURL)
	}
	return err
}

// program is the name under which the commands that hints mention reach this profile.
func (r Resolved) program() string {
	if r.Profile == Local {
		return LocalProgram
	}
	return "interlock"
}
