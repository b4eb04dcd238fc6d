package llama

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"interlock.sh/fault"
)

// Header is what the metadata of a GGUF file says about the model. Of a split model the first shard
// has it all; the others have only the split and their own tensors. Zero means that the file does not
// say.
type Header struct {
	Version      uint32
	Architecture string // e.g. "llama", "qwen3"
	Name         string // general.name
	FileType     int    // llama.cpp's number of the quantization; -1 when the file does not say

	ContextLength   int // tokens the model was trained for
	BlockCount      int
	EmbeddingLength int
	HeadCount       int
	HeadCountKV     []int // one for all layers, or one a layer
	KeyLength       int   // values a head, per token
	ValueLength     int
	VocabSize       int
	HasChatTemplate bool

	SplitNo      int // 0 for the first shard
	SplitCount   int // 0 or 1 when the model is one file
	SplitTensors int // tensors in all shards together

	TensorCount int
	DataOffset  int64 // where the tensor data begins
	DataBytes   int64 // how much tensor data the tensor table promises in this file
}

// Size is the least number of bytes a whole file with this header has.
func (h Header) Size() int64 { return h.DataOffset + h.DataBytes }

// Split says that the model is made of several files.
func (h Header) Split() bool { return h.SplitCount > 1 }

const magic = "GGUF"

// IsGGUF says whether the file's first four bytes are those of a GGUF file.
func IsGGUF(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }

// What a header may hold. A real one has under 100 entries, a few thousand tensors and some megabytes
// of vocabulary. Counts beyond these are damage or malice, and none of them is believed before the
// bytes that back it were read.
const (
	maxHeaderBytes = 256 << 20
	maxEntries     = 1 << 16
	maxTensors     = 1 << 18
	maxName        = 1<<16 - 1
	maxValue       = math.MaxInt32 // of the sizes in Header
	maxDims        = 8
)

// ReadGGUF reads the header of a GGUF file from its beginning. It needs memory for what Header holds,
// whatever the counts in the file claim. An error is a fault.Invalid that says what was found and what
// to do.
func ReadGGUF(r io.Reader) (Header, error) {
	d := &decoder{r: bufio.NewReaderSize(r, 64<<10)}
	h, err := d.header()
	if err == nil {
		return h, nil
	}
	var coded *fault.Error
	if errors.As(err, &coded) {
		return Header{}, coded
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Header{}, fault.Wrap(err, fault.Invalid, "the GGUF header ends after %d bytes, in %s", d.n, d.in).
			WithHint("the file is cut short: fetch it again and compare its size")
	}
	return Header{}, fault.Wrap(err, fault.Invalid, "the GGUF header is damaged at byte %d, in %s: %v", d.n, d.in, err).
		WithHint("fetch the file again and compare its SHA-256 with the publisher's")
}

// ReadGGUFFile reads the header of a file and checks that the file is long enough for its tensors.
func ReadGGUFFile(path string) (Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return Header{}, fmt.Errorf("open model: %w", err)
	}
	defer f.Close()
	h, err := ReadGGUF(f)
	if err != nil {
		var coded *fault.Error
		if errors.As(err, &coded) {
			named := *coded
			named.Message = filepath.Base(path) + ": " + coded.Message
			return Header{}, &named
		}
		return Header{}, err
	}
	st, err := f.Stat()
	if err != nil {
		return Header{}, fmt.Errorf("stat model: %w", err)
	}
	if st.Size() < h.Size() {
		return Header{}, fault.New(fault.Invalid, "%s: the file has %d bytes, its tensors need %d", filepath.Base(path), st.Size(), h.Size()).
			WithHint("the file is cut short: fetch it again and compare its size")
	}
	return h, nil
}

// notGGUF says what a file that is no GGUF looks like.
func notGGUF(head []byte) error {
	const want = "a release of llama.cpp takes GGUF files"
	trimmed := bytes.ToLower(bytes.TrimLeft(head, " \t\r\n\ufeff"))
	found, hint := "", want
	switch {
	case len(head) == 0:
		found, hint = "is empty", "fetch the file again"
	case len(bytes.Trim(head, "\x00")) == 0:
		found, hint = "begins with zeros", "an interrupted download leaves such a file: fetch it again"
	case bytes.HasPrefix(trimmed, []byte("<!doctype")), bytes.HasPrefix(trimmed, []byte("<html")):
		found, hint = "is a web page", "the download gave an error or a log-in page: fetch the file itself"
	case bytes.HasPrefix(trimmed, []byte("version https://git-lfs")):
		found, hint = "is a Git LFS pointer, not the model", "fetch the model with: git lfs pull"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		found, hint = "is a zip archive or a PyTorch checkpoint", "unpack it, or convert it with llama.cpp's convert_hf_to_gguf.py"
	case len(head) > 8 && head[8] == '{':
		found, hint = "looks like safetensors", "convert it with llama.cpp's convert_hf_to_gguf.py"
	case bytes.HasPrefix(head, []byte("tjgg")), bytes.HasPrefix(head, []byte("lmgg")), bytes.HasPrefix(head, []byte("fmgg")):
		found, hint = "is in the GGML format of before August 2023", "fetch the model as GGUF"
	default:
		found = fmt.Sprintf("begins with %s, not with \"GGUF\"", quoteBytes(head[:min(4, len(head))]))
	}
	return fault.New(fault.Invalid, "this file is no GGUF model: it %s", found).WithHint("%s", hint)
}

func quoteBytes(b []byte) string {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return fmt.Sprintf("the bytes % x", b)
		}
	}
	return fmt.Sprintf("%q", b)
}

// shardName is llama.cpp's name of a shard: it finds the others by it.
const shardName = "%s-%05d-of-%05d.gguf"

// ShardNames are the names of all files of a split model, in order, given the first one's; nil when the
// name is no first shard's.
func ShardNames(first string) []string {
	var no, count int
	i := strings.LastIndex(first, "-00001-of-")
	if i <= 0 {
		return nil
	}
	if _, err := fmt.Sscanf(first[i:], "-%05d-of-%05d.gguf", &no, &count); err != nil || count < 1 || count > 99999 {
		return nil
	}
	if fmt.Sprintf(shardName, first[:i], 1, count) != first {
		return nil
	}
	names := make([]string, count)
	for n := range names {
		names[n] = fmt.Sprintf(shardName, first[:i], n+1, count)
	}
	return names
}
