package llama

import (
	"math"
	"math/bits"
	"strings"
	"time"

	"interlock.sh/fault"
)

// Need is the memory a server takes, in bytes.
type Need struct {
	WeightsBytes int64
	KVBytes      int64 // the cache of keys and values for every slot's whole context
	MarginBytes  int64
	Total        int64
	// KVKnown is false when the header does not describe the attention; KVBytes is then 0 and the
	// total a lower bound.
	KVKnown bool
}

// The margin is a tenth of weights and cache, for compute buffers that grow with the model, and a
// fixed part for the program, its smallest buffers and its prompt cache.
const marginFixed = (256 + PromptCacheMiB) << 20

// CacheType is how the KV cache stores its values: "f16" and its like.
type CacheType struct {
	Name  string
	block blockType
}

// F16 is llama-server's default cache type.
var F16 = CacheType{"f16", blockType{1, 2}}

// ParseCacheType is the cache type of that name, as -ctk and -ctv take it.
func ParseCacheType(name string) (CacheType, error) {
	for _, t := range []CacheType{
		F16, {"f32", ggmlTypes[0]}, {"bf16", ggmlTypes[30]}, {"q8_0", ggmlTypes[8]}, {"q4_0", ggmlTypes[2]},
		{"q4_1", ggmlTypes[3]}, {"iq4_nl", ggmlTypes[20]}, {"q5_0", ggmlTypes[6]}, {"q5_1", ggmlTypes[7]},
	} {
		if t.Name == name {
			return t, nil
		}
	}
	return CacheType{}, fault.New(fault.Invalid, "%q is no cache type: use f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl", name).
		WithField("args")
}

// CacheTypes are the types of keys and values that a server's extra arguments ask for; F16 for what
// they do not name.
func CacheTypes(extra []string) (keys, values CacheType, err error) {
	keys, values = F16, F16
	for i := 0; i+1 < len(extra); i++ {
		switch strings.ReplaceAll(extra[i], "_", "-") {
		case "-ctk", "--cache-type-k":
			keys, err = ParseCacheType(extra[i+1])
		case "-ctv", "--cache-type-v":
			values, err = ParseCacheType(extra[i+1])
		}
		if err != nil {
			return F16, F16, err
		}
	}
	return keys, values, nil
}

// contextStep is what llama.cpp rounds a slot's context up to.
const contextStep = 256

// Fit works out the memory for weights of so many bytes (all shards together), ctxPerSlot tokens a slot
// and so many slots. It is an upper bound for models whose layers look back only over a window.
func Fit(h Header, weightsBytes int64, ctxPerSlot, slots int, keys, values CacheType) Need {
	n := Need{WeightsBytes: weightsBytes}
	perToken := uint64(0)
	for layer := range h.BlockCount {
		heads := h.headsKV(layer)
		perToken = add(perToken, keys.block.bytes(mul(heads, uint64(h.KeyLength))))
		perToken = add(perToken, values.block.bytes(mul(heads, uint64(h.ValueLength))))
	}
	n.KVKnown = perToken > 0
	tokens := mul(roundUp(ctxPerSlot), uint64(max(slots, 0)))
	n.KVBytes = clamp(mul(perToken, tokens))
	n.MarginBytes = clamp(add(add(uint64(max(weightsBytes, 0)), uint64(n.KVBytes))/10, marginFixed))
	n.Total = clamp(add(add(uint64(max(weightsBytes, 0)), uint64(n.KVBytes)), uint64(n.MarginBytes)))
	return n
}

// headsKV is the number of key-value heads of a layer; 0 for a layer without attention.
func (h Header) headsKV(layer int) uint64 {
	switch {
	case len(h.HeadCountKV) == 0:
		return 0
	case layer < len(h.HeadCountKV):
		return uint64(h.HeadCountKV[layer])
	}
	return uint64(h.HeadCountKV[len(h.HeadCountKV)-1])
}

func roundUp(ctx int) uint64 {
	return (uint64(max(ctx, 0)) + contextStep - 1) / contextStep * contextStep
}

// Sums and products of numbers from a file stop at the top instead of wrapping round to a small need.
func mul(a, b uint64) uint64 {
	if hi, lo := bits.Mul64(a, b); hi == 0 {
		return lo
	}
	return math.MaxUint64
}

func add(a, b uint64) uint64 {
	if sum, carry := bits.Add64(a, b, 0); carry == 0 {
		return sum
	}
	return math.MaxUint64
}

func clamp(v uint64) int64 { return int64(min(v, math.MaxInt64)) }

// LoadDeadline is how long a model of that size may load before it counts as hung: two minutes, and a
// second for every 32 MiB, which a slow disk gives.
func LoadDeadline(weightsBytes int64) time.Duration {
	return 2*time.Minute + time.Duration(min(max(weightsBytes, 0), maxFile)/(32<<20))*time.Second
}
