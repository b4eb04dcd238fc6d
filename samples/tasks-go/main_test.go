package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"interlock.sh/access"
	"interlock.sh/client"
	"interlock.sh/server"
)

// The sample against a real control plane: one worker, one submit.
func TestSample(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	up, served, owner := make(chan string, 1), make(chan error, 1), ""
	go func() {
		served <- server.Run(ctx, server.Config{
			Data: t.TempDir(), Listen: "127.0.0.1:0",
			Listening:  func(base, _ string) { up <- base },
			OwnerToken: func(token string) { owner = token },
		})
	}()
	base := <-up
	connect := func(credential string) *client.Client {
		c, err := client.New(client.Options{BaseURL: base, Credential: credential})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	in, err := connect("").Login(ctx, access.LoginRequest{Token: owner})
	if err != nil {
		t.Fatal(err)
	}
	account := connect(in.Token)
	if _, err := account.NewProject(ctx, access.NewProjectRequest{ID: "demo"}); err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{"INTERLOCK_URL": base}
	for name, kind := range map[string]access.Kind{"INTERLOCK_WORKER_KEY": access.TaskWorker, "INTERLOCK_PRODUCER_KEY": access.TaskProducer} {
		k, err := account.NewKey(ctx, "demo", access.NewKeyRequest{Kind: kind, Label: name})
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = k.Key
	}
	env := func(name string) string { return keys[name] }

	working, drain := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(working, []string{"worker"}, env, io.Discard) }()
	var out strings.Builder
	if err := run(ctx, []string{"submit", "Ada"}, env, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), ` succeeded {"message":"Hello, Ada!"}`+"\n") {
		t.Errorf("submit printed %q", out.String())
	}
	drain()
	if err := <-ended; err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if err := run(ctx, []string{"sing"}, env, io.Discard); err == nil {
		t.Error("an unknown word was taken")
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("the control plane ended with %v", err)
	}
}
