package gguftiny

import "fmt"

// The kinds of token in tokenizer.ggml.token_type.
const (
	tokenNormal  = 1
	tokenUnknown = 2
	tokenControl = 3
	tokenByte    = 6
)

type vocab struct {
	tokens []string
	scores []float32
	types  []int32
	spoken int // the tokens from here on are the ones the model says
}

// vocabulary has the three special tokens, one token for each byte, and one for each printable ASCII
// character. The last group exists so that answers are text: a random sequence of bytes is no UTF-8.
func vocabulary() vocab {
	var v vocab
	add := func(token string, kind int32) {
		v.tokens = append(v.tokens, token)
		v.scores = append(v.scores, 0)
		v.types = append(v.types, kind)
	}
	add("<unk>", tokenUnknown)
	add("<s>", tokenControl)
	add("</s>", tokenControl)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), tokenByte)
	}
	v.spoken = len(v.tokens)
	add("▁", tokenNormal) // how this tokenizer writes a space
	for c := '!'; c <= '~'; c++ {
		add(string(c), tokenNormal)
	}
	return v
}

// weights are the tensors in the order in which they stand in the file.
func weights(seed uint64) []tensor {
	v := vocabulary()
	n := len(v.tokens)
	r := random(seed)
	matrix := func(name string, in, out int) tensor {
		return tensor{name: name, dims: []uint64{uint64(in), uint64(out)}, data: r.floats(in*out, 0.2)}
	}
	norm := func(name string) tensor {
		data := make([]float32, Width)
		for i := range data {
			data[i] = 1
		}
		return tensor{name: name, dims: []uint64{Width}, data: data}
	}

	output := matrix("output.weight", Width, n)
	for i := range output.data {
		if i < v.spoken*Width {
			output.data[i] = 0 // never said, the end of the text included
		} else {
			output.data[i] *= 10 // far above the zeros at any temperature
		}
	}
	ts := []tensor{matrix("token_embd.weight", Width, n), norm("output_norm.weight"), output}
	for l := range Layers {
		p := fmt.Sprintf("blk.%d.", l)
		ts = append(ts,
			norm(p+"attn_norm.weight"),
			matrix(p+"attn_q.weight", Width, Width),
			matrix(p+"attn_k.weight", Width, Width/Heads*HeadsKV),
			matrix(p+"attn_v.weight", Width, Width/Heads*HeadsKV),
			matrix(p+"attn_output.weight", Width, Width),
			norm(p+"ffn_norm.weight"),
			matrix(p+"ffn_gate.weight", Width, FeedForward),
			matrix(p+"ffn_up.weight", Width, FeedForward),
			matrix(p+"ffn_down.weight", FeedForward, Width),
		)
	}
	return ts
}

// random is splitmix64: its stream is fixed by its definition, where that of a library may change.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// floats are n values spread evenly over (-scale, scale). One multiplication each: nothing that a
// platform could fuse, so the bytes are the same everywhere.
func (r *random) floats(n int, scale float32) []float32 {
	unit := scale / (1 << 23)
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(int32(r.next()>>40)-1<<23) * unit
	}
	return out
}
