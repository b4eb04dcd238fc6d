package llama

import (
	"runtime"
	"strconv"
	"strings"

	"interlock.sh/fault"
)

// Spec is what one server is asked to be.
type Spec struct {
	Model         string // path of the GGUF; of a split one, its first shard
	Alias         string // the name it answers to in /v1/models
	Port          int    // on 127.0.0.1
	APIKey        string // random, from ident.Secret
	APIKeyFile    string // the 0600 file that holds APIKey
	ContextLength int    // tokens a slot
	Slots         int    // requests at once
	Threads       int    // 0: llama-server's own default, except on small machines, see Args
	ThreadsBatch  int    // 0: like Threads
	GPULayers     *int   // nil: llama-server decides
	Extra         []string
	Cores         int // of this machine; 0: counted
}

// Host is the address every server is bound to. It is a literal because "localhost" may resolve to
// another family, on which another program may listen.
const Host = "127.0.0.1"

// PromptCacheMiB bounds llama-server's cache of prompts outside the slots. Its own default is 8 GiB of
// memory that no header announces; Fit counts this much instead.
const PromptCacheMiB = 256

// smallMachine is the number of cores up to which one thread is faster than llama-server's default:
// with as many threads as cores its workers wait actively for one another, and anything else that runs
// on the machine stops them all (measured on two cores: four times slower, and far worse when busy).
const smallMachine = 2

// Args are the arguments of a server, without the program's path. The key is never among them: it
// is read from Spec.APIKeyFile, or by builds that cannot do that from the environment, see Env.
//
// llama-server's -c is the whole context, split over the slots, so it is ContextLength × Slots.
func Args(b Binary, s Spec) ([]string, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	n := strconv.Itoa
	args := []string{
		"--host", Host, "--port", n(s.Port),
		"--model", s.Model, "--alias", s.Alias,
		"--ctx-size", n(s.ContextLength * s.Slots), "--parallel", n(s.Slots),
	}
	if b.Flags.Has("--api-key-file") && s.APIKeyFile != "" {
		args = append(args, "--api-key-file", s.APIKeyFile)
	}
	threads, batch := s.threads()
	if threads > 0 {
		args = append(args, "-t", n(threads))
	}
	if batch > 0 {
		args = append(args, "-tb", n(batch))
	}
	if s.GPULayers != nil {
		args = append(args, "-ngl", n(*s.GPULayers))
	}
	// Telemetry, chat templates with tools, and no page and no download that nobody asked for.
	for _, f := range []string{"--metrics", "--slots", "--jinja", "--no-webui", "--offline"} {
		if b.Flags.Has(f) {
			args = append(args, f)
		}
	}
	if b.Flags.Has("--cache-ram") {
		args = append(args, "--cache-ram", n(PromptCacheMiB))
	}
	return append(args, s.Extra...), nil
}

func (s Spec) threads() (generate, batch int) {
	generate, batch = s.Threads, s.ThreadsBatch
	cores := s.Cores
	if cores == 0 {
		cores = runtime.NumCPU()
	}
	if generate == 0 && cores <= smallMachine {
		generate = 1
	}
	if batch == 0 {
		batch = generate
	}
	return generate, batch
}

const (
	maxSlots   = 256     // llama.cpp's own limit of sequences
	maxContext = 1 << 31 // of all slots together; no model comes near it
)

func (s Spec) check() error {
	invalid := func(field, format string, args ...any) error {
		return fault.New(fault.Invalid, format, args...).WithField(field)
	}
	switch {
	case s.Model == "":
		return invalid("model", "no model file given")
	case s.Alias == "":
		return invalid("alias", "no alias given")
	case s.Port < 1 || s.Port > 65535:
		return invalid("port", "port must be 1 to 65535, not %d", s.Port)
	case strings.Contains(s.Alias, ","):
		return invalid("alias", "the alias %q has a comma, which llama-server takes for several names", s.Alias)
	case s.Slots < 1 || s.Slots > maxSlots:
		return invalid("slots", "slots must be 1 to %d, not %d", maxSlots, s.Slots)
	case s.ContextLength < 1 || s.ContextLength > maxContext/s.Slots:
		return invalid("contextLength", "contextLength must be 1 to %d for %d slots, not %d", maxContext/s.Slots, s.Slots, s.ContextLength)
	case s.Threads < 0 || s.ThreadsBatch < 0:
		return invalid("threads", "threads must be 0 (default) or more, not %d and %d", s.Threads, s.ThreadsBatch)
	}
	return CheckExtra(s.Extra)
}

// envKey is where builds without --api-key-file read the key.
const envKey = "LLAMA_API_KEY"

// Env is the environment of a server made from base, usually os.Environ(): without the variables that
// set llama-server's options behind the arguments, and with the key where the build can read it nowhere
// else. Secrets of the caller are the caller's to remove.
func Env(b Binary, s Spec, base []string) []string {
	env := cleanEnv(base)
	if s.APIKey != "" && (s.APIKeyFile == "" || !b.Flags.Has("--api-key-file")) {
		env = append(env, envKey+"="+s.APIKey)
	}
	return env
}

// cleanEnv drops what would configure llama.cpp or let it fetch with the user's credentials.
func cleanEnv(base []string) []string {
	env := make([]string, 0, len(base)+1)
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "LLAMA_ARG_") || name == envKey || name == "HF_TOKEN" {
			continue
		}
		env = append(env, kv)
	}
	return env
}
