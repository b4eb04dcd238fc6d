package llama

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// The value types of GGUF metadata.
const (
	kvUint8   = 0
	kvInt8    = 1
	kvUint16  = 2
	kvInt16   = 3
	kvUint32  = 4
	kvInt32   = 5
	kvFloat32 = 6
	kvBool    = 7
	kvString  = 8
	kvArray   = 9
	kvUint64  = 10
	kvInt64   = 11
	kvFloat64 = 12
)

// kvSizes are the bytes of the fixed-size types; integer ones can be kept.
var kvSizes = map[uint32]struct {
	bytes   int
	integer bool
}{
	kvUint8: {1, true}, kvInt8: {1, true}, kvUint16: {2, true}, kvInt16: {2, true},
	kvUint32: {4, true}, kvInt32: {4, true}, kvUint64: {8, true}, kvInt64: {8, true},
	kvFloat32: {4, false}, kvFloat64: {8, false}, kvBool: {1, false},
}

const (
	maxDepth     = 4       // arrays within arrays
	maxKeptText  = 4 << 10 // of the texts in Header
	maxKeptArray = 1 << 12 // values, one a layer
	maxKept      = 256     // entries kept
	maxBlocks    = 1 << 16 // layers
)

// metadata is the part of the entries that Header is made of.
type metadata struct {
	ints      map[string][]uint64
	texts     map[string]string
	tokens    uint64 // length of the vocabulary
	templated bool
}

// The keys that are kept: these, and those of the architecture that end like this.
var (
	keptTexts    = map[string]bool{"general.architecture": true, "general.name": true}
	keptInts     = map[string]bool{"general.file_type": true, "general.alignment": true, "split.no": true, "split.count": true, "split.tensors.count": true}
	keptSuffixes = []string{
		".context_length", ".block_count", ".embedding_length", ".vocab_size",
		".attention.head_count", ".attention.head_count_kv", ".attention.key_length", ".attention.value_length",
	}
)

func keepInt(key string) bool {
	if keptInts[key] {
		return true
	}
	for _, s := range keptSuffixes {
		// One dot-free architecture before it: "clip.vision.block_count" is another model's.
		if arch, ok := strings.CutSuffix(key, s); ok && !strings.Contains(arch, ".") {
			return true
		}
	}
	return false
}

// entry reads one metadata entry.
func (d *decoder) entry(m *metadata) error {
	key, err := d.text(maxName, true)
	if err != nil {
		return err
	}
	kind, err := d.u32()
	if err != nil {
		return err
	}
	if len(m.ints)+len(m.texts) >= maxKept {
		return fmt.Errorf("it has more than %d entries that describe the model", maxKept)
	}
	switch {
	case kind == kvString && keptTexts[key]:
		m.texts[key], err = d.text(maxKeptText, true)
		return err
	case key == "tokenizer.chat_template":
		m.templated = true
		return d.skipValue(kind, 0)
	case kvSizes[kind].integer && keepInt(key):
		v, err := d.integer(kind)
		m.ints[key] = []uint64{v}
		return err
	case kind == kvArray:
		return d.array(m, key)
	}
	return d.skipValue(kind, 0)
}

func (d *decoder) array(m *metadata, key string) error {
	elem, n, err := d.arrayHead()
	if err != nil {
		return err
	}
	if key == "tokenizer.ggml.tokens" {
		m.tokens = n
	}
	if kvSizes[elem].integer && keepInt(key) && n <= maxKeptArray {
		values := make([]uint64, 0, n)
		for range n {
			v, err := d.integer(elem)
			if err != nil {
				return err
			}
			values = append(values, v)
		}
		m.ints[key] = values
		return nil
	}
	return d.skipElements(elem, n, 0)
}

func (d *decoder) arrayHead() (elem uint32, n uint64, err error) {
	if elem, err = d.u32(); err != nil {
		return 0, 0, err
	}
	n, err = d.u64()
	return elem, n, err
}

// integer reads an integer of any width; a negative one comes out as a huge one, which is refused later.
func (d *decoder) integer(kind uint32) (uint64, error) {
	b, err := d.read(kvSizes[kind].bytes)
	if err != nil {
		return 0, err
	}
	switch kind {
	case kvUint8:
		return uint64(b[0]), nil
	case kvInt8:
		return uint64(int8(b[0])), nil
	case kvUint16:
		return uint64(binary.LittleEndian.Uint16(b)), nil
	case kvInt16:
		return uint64(int16(binary.LittleEndian.Uint16(b))), nil
	case kvUint32:
		return uint64(binary.LittleEndian.Uint32(b)), nil
	case kvInt32:
		return uint64(int32(binary.LittleEndian.Uint32(b))), nil
	}
	return binary.LittleEndian.Uint64(b), nil
}

func (d *decoder) skipValue(kind uint32, depth int) error {
	if size, ok := kvSizes[kind]; ok {
		return d.skip(uint64(size.bytes))
	}
	switch kind {
	case kvString:
		_, err := d.text(maxHeaderBytes, false)
		return err
	case kvArray:
		elem, n, err := d.arrayHead()
		if err != nil {
			return err
		}
		return d.skipElements(elem, n, depth+1)
	}
	return fmt.Errorf("it has the unknown value type %d", kind)
}

func (d *decoder) skipElements(elem uint32, n uint64, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it has arrays nested deeper than %d", maxDepth)
	}
	if n > maxHeaderBytes {
		return errTooLong // each element has a byte at least
	}
	if size, ok := kvSizes[elem]; ok {
		return d.skip(n * uint64(size.bytes))
	}
	for range n { // ends with the bytes: each turn reads at least eight
		if err := d.skipValue(elem, depth); err != nil {
			return err
		}
	}
	return nil
}

// alignment is where tensor data is aligned to.
func (m metadata) alignment() uint64 {
	if v := m.ints["general.alignment"]; len(v) == 1 && v[0] > 0 && v[0] <= 1<<20 {
		return v[0]
	}
	return 32
}

// header is the metadata in terms of the model's architecture.
func (m metadata) header() (Header, error) {
	h := Header{
		Architecture:    m.texts["general.architecture"],
		Name:            m.texts["general.name"],
		FileType:        -1,
		HasChatTemplate: m.templated,
	}
	var err error
	list := func(key string) []int {
		values := make([]int, 0, len(m.ints[key]))
		for _, v := range m.ints[key] {
			if v > maxValue && err == nil {
				err = fmt.Errorf("%s is %d, which no model has", key, int64(v))
			}
			values = append(values, int(v&maxValue))
		}
		return values
	}
	one := func(key string) int {
		most := 0
		for _, v := range list(key) {
			most = max(most, v)
		}
		return most
	}
	arch := h.Architecture
	h.SplitNo, h.SplitCount, h.SplitTensors = one("split.no"), one("split.count"), one("split.tensors.count")
	h.ContextLength = one(arch + ".context_length")
	h.BlockCount = one(arch + ".block_count")
	h.EmbeddingLength = one(arch + ".embedding_length")
	h.HeadCount = one(arch + ".attention.head_count")
	h.HeadCountKV = list(arch + ".attention.head_count_kv")
	h.KeyLength = one(arch + ".attention.key_length")
	h.ValueLength = one(arch + ".attention.value_length")
	h.VocabSize = one(arch + ".vocab_size")
	if len(m.ints["general.file_type"]) == 1 {
		h.FileType = one("general.file_type")
	}
	if h.VocabSize == 0 && m.tokens <= maxValue {
		h.VocabSize = int(m.tokens)
	}
	if h.HeadCount > 0 {
		if len(h.HeadCountKV) == 0 {
			h.HeadCountKV = []int{h.HeadCount}
		}
		if h.KeyLength == 0 {
			h.KeyLength = h.EmbeddingLength / h.HeadCount
		}
		if h.ValueLength == 0 {
			h.ValueLength = h.EmbeddingLength / h.HeadCount
		}
	}
	if h.BlockCount > maxBlocks && err == nil {
		err = fmt.Errorf("%s.block_count is %d, which no model has", arch, h.BlockCount)
	}
	return h, err
}
