package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/updater"
)

// startsUp has a new program say its version, before it takes over.
func startsUp(ctx context.Context, program string) error {
	_, err := ask(ctx, little(), program, "--version")
	return err
}

// saysVersion is what a program says its version is; "" when it does not.
func saysVersion(ctx context.Context, program string) string {
	out, err := ask(ctx, little(), program, "--version")
	words := strings.Fields(out)
	if err != nil || len(words) < 2 {
		return ""
	}
	return words[1]
}

// looksForUpdates has a new program do what the timer will have it do, but for bringing anything in, and tell
// where it stands. One that ends well without a word has not done it.
func looksForUpdates(home enrollment.Home, app string) func(context.Context, string) error {
	return func(ctx context.Context, program string) error {
		env := append(os.Environ(), enrollment.EnvHome+"="+string(home)) // with the proxy that the updater goes through
		out, err := ask(ctx, env, program, "updater", "run", "--self-test", "--app", app)
		if err != nil {
			return err
		}
		var found updater.News
		if err := json.Unmarshal([]byte(out), &found); err != nil || found.Current != filepath.Base(filepath.Dir(program)) {
			return fmt.Errorf("its self-test said %.120q", clean(strings.TrimSpace(out)))
		}
		return nil
	}
}

// little is the environment of a program that is to say its version.
func little() []string { return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")} }

// ask runs a program that is not trusted to work yet.
func ask(ctx context.Context, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = env
	cmd.WaitDelay = time.Second // what it started may hold its output
	var out, trouble strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &trouble
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("it did not answer `%s` in time", strings.Join(args, " "))
	}
	if text := clean(strings.TrimSpace(trouble.String() + out.String())); text != "" {
		return "", fmt.Errorf("%w: %.120s", err, text)
	}
	return "", err
}
