package llama

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"interlock.sh/fault"
)

func knows(flags ...string) Binary {
	b := Binary{Flags: Flags{}}
	for _, f := range flags {
		b.Flags[f] = true
	}
	return b
}

func spec() Spec {
	return Spec{Model: "/models/m.gguf", Alias: "m", Port: 4001, APIKey: "k-123", APIKeyFile: "/run/key",
		ContextLength: 2048, Slots: 4, Cores: 8}
}

func TestArgs(t *testing.T) {
	layers := 0
	for name, c := range map[string]struct {
		bin    Binary
		change func(*Spec)
		want   string
	}{
		"a build that knows little": {knows(), func(*Spec) {},
			"--host 127.0.0.1 --port 4001 --model /models/m.gguf --alias m --ctx-size 8192 --parallel 4"},
		"a build that knows all": {knows("--api-key-file", "--metrics", "--slots", "--jinja", "--no-webui", "--offline", "--cache-ram"), func(*Spec) {},
			"--host 127.0.0.1 --port 4001 --model /models/m.gguf --alias m --ctx-size 8192 --parallel 4 --api-key-file /run/key" +
				" --metrics --slots --jinja --no-webui --offline --cache-ram 256"},
		"threads and layers as asked": {knows(), func(s *Spec) { s.Threads, s.ThreadsBatch, s.GPULayers = 6, 7, &layers },
			"--host 127.0.0.1 --port 4001 --model /models/m.gguf --alias m --ctx-size 8192 --parallel 4 -t 6 -tb 7 -ngl 0"},
		"one thread on two cores": {knows(), func(s *Spec) { s.Cores = 2 },
			"--host 127.0.0.1 --port 4001 --model /models/m.gguf --alias m --ctx-size 8192 --parallel 4 -t 1 -tb 1"},
		"two threads on two cores when asked": {knows(), func(s *Spec) { s.Cores, s.Threads = 2, 2 },
			"--host 127.0.0.1 --port 4001 --model /models/m.gguf --alias m --ctx-size 8192 --parallel 4 -t 2 -tb 2"},
		"extra arguments last": {knows(), func(s *Spec) { s.Extra = []string{"-ctk", "q8_0"} },
			"--host 127.0.0.1 --port 4001 --model /models/m.gguf --alias m --ctx-size 8192 --parallel 4 -ctk q8_0"},
	} {
		s := spec()
		c.change(&s)
		got, err := Args(c.bin, s)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, strings.Join(got, " "), c.want)
		}
	}
}

func TestArgsNeverCarryTheKey(t *testing.T) {
	for _, b := range []Binary{knows(), knows("--api-key-file")} {
		s := spec()
		args, err := Args(b, s)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(strings.Join(args, " "), s.APIKey) {
			t.Errorf("the key is in the arguments: %v", args)
		}
		env := Env(b, s, []string{"PATH=/bin", "LLAMA_ARG_PORT=1", "LLAMA_API_KEY=other", "HF_TOKEN=t"})
		want := []string{"PATH=/bin"}
		if !b.Flags.Has("--api-key-file") {
			want = append(want, "LLAMA_API_KEY=k-123")
		}
		if !slices.Equal(env, want) {
			t.Errorf("environment %v, want %v", env, want)
		}
	}
}

func TestArgsRefusals(t *testing.T) {
	for _, c := range []struct {
		field  string
		change func(*Spec)
	}{
		{"model", func(s *Spec) { s.Model = "" }},
		{"alias", func(s *Spec) { s.Alias = "" }},
		{"alias", func(s *Spec) { s.Alias = "a,b" }},
		{"port", func(s *Spec) { s.Port = 70000 }},
		{"slots", func(s *Spec) { s.Slots = 0 }},
		{"slots", func(s *Spec) { s.Slots = 257 }},
		{"contextLength", func(s *Spec) { s.ContextLength = maxContext }},
		{"threads", func(s *Spec) { s.Threads = -1 }},
	} {
		s, field := spec(), c.field
		c.change(&s)
		_, err := Args(knows(), s)
		var coded *fault.Error
		if !errors.As(err, &coded) || coded.Code != fault.Invalid || coded.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestExtraArgumentsThatAreNotTheirs(t *testing.T) {
	for _, arg := range []string{
		"--host", "--host=0.0.0.0", "--port", "--api-key", "--api-key-file", "-m", "--model", "--model=/etc/x",
		"-c", "--ctx-size", "--ctx_size", "-np", "-a", "-hf", "--hf-repo", "--model-url", "--tools", "--agent",
		"--rpc", "--path", "--gpt-oss-20b-default", "--fim-qwen-7b-spec", "--ssl-key-file", "--slot_save_path",
	} {
		err := CheckExtra([]string{"-ctk", "q8_0", arg, "value"})
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "cannot be set") {
			t.Errorf("%s: %v", arg, err)
		}
	}
	if err := CheckExtra([]string{"-ctk", "q8_0", "--flash-attn", "on", "--spec-default", "--temp", "-1"}); err != nil {
		t.Errorf("arguments of the deployment were refused: %v", err)
	}
}
