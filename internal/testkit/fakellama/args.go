package fakellama

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// options are the flags of llama-server that change what the fake does.
type options struct {
	host, model, alias string
	port, ctx, slots   int
	keys               []string
	help, version      bool
	devices, metrics   bool
}

// valued are the flags that take a value and that the fake accepts, whether it heeds them or not.
var valued = map[string]func(*options, string) error{
	"-m": setText(func(o *options) *string { return &o.model }), "--model": setText(func(o *options) *string { return &o.model }),
	"-a": setText(func(o *options) *string { return &o.alias }), "--alias": setText(func(o *options) *string { return &o.alias }),
	"--host": setText(func(o *options) *string { return &o.host }),
	"--port": setNumber(func(o *options) *int { return &o.port }),
	"-c":     setNumber(func(o *options) *int { return &o.ctx }), "--ctx-size": setNumber(func(o *options) *int { return &o.ctx }),
	"-np": setNumber(func(o *options) *int { return &o.slots }), "--parallel": setNumber(func(o *options) *int { return &o.slots }),
	"--api-key":      func(o *options, v string) error { o.keys = append(o.keys, strings.Split(v, ",")...); return nil },
	"--api-key-file": readKeys,
	"-t":             nil, "--threads": nil, "-tb": nil, "--threads-batch": nil, "-b": nil, "--batch-size": nil, "-ub": nil,
	"--ubatch-size": nil, "-ngl": nil, "--gpu-layers": nil, "--n-gpu-layers": nil, "-fa": nil, "--flash-attn": nil,
	"--chat-template": nil, "--chat-template-file": nil, "-to": nil, "--timeout": nil, "--threads-http": nil,
	"-ctk": nil, "--cache-type-k": nil, "-ctv": nil, "--cache-type-v": nil, "--log-file": nil, "--cache-reuse": nil,
	"--reasoning-format": nil, "--reasoning-budget": nil, "-lv": nil, "--verbosity": nil, "-s": nil, "--seed": nil,
	"--temp": nil, "-n": nil, "--predict": nil, "--n-predict": nil, "-dev": nil, "--device": nil, "--slot-save-path": nil,
	"-mg": nil, "--main-gpu": nil, "-sm": nil, "--split-mode": nil, "-ts": nil, "--tensor-split": nil, "--lora": nil,
	"-cram": nil, "--cache-ram": nil, "-fit": nil, "--fit": nil, "--override-kv": nil, "--sleep-idle-seconds": nil,
}

// switches are the flags without a value.
var switches = map[string]func(*options){
	"-h": func(o *options) { o.help = true }, "--help": func(o *options) { o.help = true },
	"--version":    func(o *options) { o.version = true },
	"--embeddings": nil, "--embedding": nil,
	"--metrics": func(o *options) { o.metrics = true }, "--list-devices": func(o *options) { o.devices = true },
	"--jinja": nil, "--no-jinja": nil, "--mlock": nil, "--no-mmap": nil, "--slots": nil, "--no-slots": nil, "--no-webui": nil,
	"--offline": nil, "--no-warmup": nil, "-cb": nil, "--cont-batching": nil, "--log-timestamps": nil, "--log-prefix": nil,
	"--log-disable": nil, "-v": nil, "--verbose": nil, "--no-context-shift": nil, "--context-shift": nil, "--props": nil,
	"-kvu": nil, "--kv-unified": nil, "--swa-full": nil, "--log-colors": nil, "--no-perf": nil, "--no-cont-batching": nil,
}

func setText(field func(*options) *string) func(*options, string) error {
	return func(o *options, v string) error { *field(o) = v; return nil }
}

func setNumber(field func(*options) *int) func(*options, string) error {
	return func(o *options, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil {
			return fmt.Errorf("%q is no number", v)
		}
		*field(o) = n
		return nil
	}
}

func readKeys(o *options, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("failed to open file '%s'", path)
	}
	for line := range strings.Lines(string(b)) {
		if key := strings.TrimSpace(line); key != "" {
			o.keys = append(o.keys, key)
		}
	}
	return nil
}

// parse reads llama-server's command line; an unknown flag is refused in its words.
func parse(args []string) (options, error) {
	o := options{host: "127.0.0.1", port: 8080, ctx: 4096, slots: 4}
	for i := 0; i < len(args); i++ {
		flag := args[i]
		if set, ok := switches[flag]; ok {
			if set != nil {
				set(&o)
			}
			continue
		}
		set, ok := valued[flag]
		if !ok {
			return o, fmt.Errorf("error: invalid argument: %s", flag)
		}
		i++
		if i == len(args) {
			return o, fmt.Errorf("error while handling argument %q: expected value for argument", flag)
		}
		if set != nil {
			if err := set(&o, args[i]); err != nil {
				return o, fmt.Errorf("error while handling argument %q: %w", flag, err)
			}
		}
	}
	if o.model == "" && !o.help && !o.version && !o.devices {
		return o, fmt.Errorf("error: --model is required")
	}
	if o.alias == "" {
		o.alias = o.model
	}
	return o, nil
}

// helpText is the part of llama-server's --help that programs look into: each flag on a line.
const helpText = `usage: llama-server [options]

----- common params -----

-h,    --help, --usage                  print usage and exit
--version                               show version and build info
-t,    --threads N                      number of CPU threads to use during generation (default: -1)
                                        (env: LLAMA_ARG_THREADS)
-tb,   --threads-batch N                number of threads to use during batch and prompt processing
-c,    --ctx-size N                     size of the prompt context (default: 0, 0 = loaded from model)
                                        (env: LLAMA_ARG_CTX_SIZE)
-b,    --batch-size N                   logical maximum batch size (default: 2048)
-ub,   --ubatch-size N                  physical maximum batch size (default: 512)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use (default: 'auto')
-ctk,  --cache-type-k TYPE              KV cache data type for K
-ctv,  --cache-type-v TYPE              KV cache data type for V
--mlock                                 force system to keep model in RAM rather than swapping or compressing
--no-mmap                               do not memory-map model
-ngl,  --gpu-layers, --n-gpu-layers N   max. number of layers to store in VRAM
--list-devices                          print list of available devices and exit
-m,    --model FNAME                    model path to load (env: LLAMA_ARG_MODEL)
--log-disable                           Log disable
--offline                               Offline mode: forces use of cache, prevents network access

----- example-specific params -----

-cram, --cache-ram N                    set the maximum cache size in MiB (default: 8192)
-np,   --parallel N                     number of server slots (default: -1, -1 = auto)
                                        (env: LLAMA_ARG_N_PARALLEL)
-a,    --alias STRING                   set alias for model name (to be used by REST API)
--host HOST                             ip address to listen (default: 127.0.0.1)
--port PORT                             port to listen (default: 8080)
--no-webui                              Disable the Web UI
--embedding, --embeddings               restrict to only support embedding use case
--api-key KEY                           API key to use for authentication
--api-key-file FNAME                    path to file containing API keys (default: none)
-to,   --timeout N                      server read/write timeout in seconds (default: 600)
--threads-http N                        number of threads used to process HTTP requests (default: -1)
--metrics                               enable prometheus compatible metrics endpoint (default: disabled)
--slots, --no-slots                     expose slots monitoring endpoint (default: enabled)
--jinja, --no-jinja                     whether to use jinja template engine for chat (default: enabled)
--chat-template JINJA_TEMPLATE          set custom jinja chat template
--reasoning-format FORMAT               controls whether thought tags are extracted from the response
`
