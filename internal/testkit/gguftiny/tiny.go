// Package gguftiny writes a tiny random model that a real llama-server loads in a blink and answers
// with: llama architecture, 2 layers, width 64, one token a byte, about 0.5 MB. What it says is babble
// of printable ASCII that never ends by itself, so a test asserts structure and counts, not sense.
//
// It owns only the writing. The bytes depend on the seed and the options alone, on every platform.
package gguftiny

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The sizes of the model. A change of one changes the bytes of every model written.
const (
	Layers        = 2
	Width         = 64
	Heads         = 4
	HeadsKV       = 2
	FeedForward   = 160
	ContextLength = 4096 // unless Options says otherwise
)

// Options vary the model. The zero value is the usual one.
type Options struct {
	Name          string // general.name; "tiny" when empty
	ContextLength int    // what the header says the model was trained for
	Shards        int    // above 1, a split of this many files in llama.cpp's naming
}

// Write writes a model and returns its files in order. One file has the given path; a split of three
// turns "dir/m.gguf" into "dir/m-00001-of-00003.gguf" and so on, of which a server is given the first.
func Write(path string, seed uint64, opts Options) ([]string, error) {
	tensors := weights(seed)
	if opts.Shards <= 1 {
		var e encoder
		describe(&e, opts)
		e.tensors = tensors
		return []string{path}, write(path, &e)
	}
	if opts.Shards > len(tensors) {
		return nil, fmt.Errorf("split %s: %d shards for %d tensors", path, opts.Shards, len(tensors))
	}
	stem := strings.TrimSuffix(path, ".gguf")
	var paths []string
	for i := range opts.Shards {
		var e encoder
		if i == 0 {
			describe(&e, opts)
		}
		e.kv("split.no", uint16(i))
		e.kv("split.count", uint16(opts.Shards))
		e.kv("split.tensors.count", int32(len(tensors)))
		e.tensors = tensors[i*len(tensors)/opts.Shards : (i+1)*len(tensors)/opts.Shards]
		p := fmt.Sprintf("%s-%05d-of-%05d.gguf", stem, i+1, opts.Shards)
		if err := write(p, &e); err != nil {
			return nil, err
		}
		paths = append(paths, p)
	}
	return paths, nil
}

func write(path string, e *encoder) error {
	if err := os.WriteFile(path, e.encode(), 0o644); err != nil {
		return fmt.Errorf("write tiny model %s: %w", filepath.Base(path), err)
	}
	return nil
}

// describe writes the metadata that llama.cpp asks of a llama-architecture model.
func describe(e *encoder, opts Options) {
	name, ctx := opts.Name, opts.ContextLength
	if name == "" {
		name = "tiny"
	}
	if ctx <= 0 {
		ctx = ContextLength
	}
	v := vocabulary()
	e.kv("general.architecture", "llama")
	e.kv("general.name", name)
	e.kv("general.file_type", uint32(0)) // all F32
	e.kv("llama.context_length", uint32(ctx))
	e.kv("llama.embedding_length", uint32(Width))
	e.kv("llama.block_count", uint32(Layers))
	e.kv("llama.feed_forward_length", uint32(FeedForward))
	e.kv("llama.attention.head_count", uint32(Heads))
	e.kv("llama.attention.head_count_kv", uint32(HeadsKV))
	e.kv("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	e.kv("llama.rope.dimension_count", uint32(Width/Heads))
	e.kv("llama.rope.freq_base", float32(10000))
	e.kv("llama.vocab_size", uint32(len(v.tokens)))
	e.kv("tokenizer.ggml.model", "llama")
	e.kv("tokenizer.ggml.pre", "default")
	e.kv("tokenizer.ggml.tokens", v.tokens)
	e.kv("tokenizer.ggml.scores", v.scores)
	e.kv("tokenizer.ggml.token_type", v.types)
	e.kv("tokenizer.ggml.unknown_token_id", uint32(0))
	e.kv("tokenizer.ggml.bos_token_id", uint32(1))
	e.kv("tokenizer.ggml.eos_token_id", uint32(2))
	e.kv("tokenizer.chat_template", chatTemplate)
}

const chatTemplate = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}" +
	"{% if add_generation_prompt %}assistant: {% endif %}"
