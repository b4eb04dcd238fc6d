package llama

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/internal/testkit/gguftiny"
)

// tiny writes a tiny model and gives its files.
func tiny(t testing.TB, opts gguftiny.Options) []string {
	t.Helper()
	files, err := gguftiny.Write(filepath.Join(t.TempDir(), "tiny.gguf"), 7, opts)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestReadGGUF(t *testing.T) {
	path := tiny(t, gguftiny.Options{Name: "Tiny one", ContextLength: 1024})[0]
	h, err := ReadGGUFFile(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	want := Header{
		Version: 3, Architecture: "llama", Name: "Tiny one", FileType: 0, ContextLength: 1024,
		BlockCount: gguftiny.Layers, EmbeddingLength: gguftiny.Width, HeadCount: gguftiny.Heads,
		HeadCountKV: []int{gguftiny.HeadsKV}, KeyLength: 16, ValueLength: 16, VocabSize: 354,
		HasChatTemplate: true, TensorCount: 3 + 9*gguftiny.Layers,
		DataOffset: h.DataOffset, DataBytes: h.DataBytes,
	}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("read %+v\nwant %+v", h, want)
	}
	if h.Size() != st.Size() {
		t.Errorf("offset %d and data %d make %d, the file has %d", h.DataOffset, h.DataBytes, h.Size(), st.Size())
	}
	if h.Split() {
		t.Error("a whole model reads as split")
	}
}

func TestReadGGUFSplit(t *testing.T) {
	files := tiny(t, gguftiny.Options{Shards: 3})
	if names := ShardNames(files[0]); !slices.Equal(names, files) {
		t.Errorf("shards of %s are %v, want %v", files[0], names, files)
	}
	tensors := 0
	for i, f := range files {
		h, err := ReadGGUFFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !h.Split() || h.SplitNo != i || h.SplitCount != 3 || h.SplitTensors != 21 || (h.Architecture == "llama") != (i == 0) {
			t.Errorf("shard %d reads as %+v", i, h)
		}
		tensors += h.TensorCount
	}
	if tensors != 21 {
		t.Errorf("the shards have %d tensors, want 21", tensors)
	}
}

func TestShardNames(t *testing.T) {
	for _, no := range []string{"m.gguf", "m-00002-of-00003.gguf", "-00001-of-00003.gguf", "m-00001-of-00000.gguf", "m-00001-of-3.gguf", "m-00001-of-00003.gguf.part"} {
		if names := ShardNames(no); names != nil {
			t.Errorf("%s is no first shard and gave %v", no, names)
		}
	}
}

func TestNotGGUFSaysWhatItIs(t *testing.T) {
	for want, head := range map[string]string{
		"is empty":               "",
		"begins with zeros":      strings.Repeat("\x00", 4096),
		"is a web page":          "  <!DOCTYPE html><html>",
		"is a Git LFS pointer":   "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
		"is a zip archive":       "PK\x03\x04....",
		"looks like safetensors": "\x10\x00\x00\x00\x00\x00\x00\x00{\"__metadata__\"",
		"GGML format":            "tjgg\x01\x00\x00\x00",
		`begins with "hell"`:     "hello world",
		"the bytes 7f 45 4c 46":  "\x7fELF\x02\x01",
	} {
		_, err := ReadGGUF(strings.NewReader(head))
		var coded *fault.Error
		if !errors.As(err, &coded) || coded.Code != fault.Invalid || coded.Hint == "" || !strings.Contains(coded.Message, want) {
			t.Errorf("%q: %v, want %q in it", head[:min(len(head), 20)], err, want)
		}
	}
}

func TestGGUFVersions(t *testing.T) {
	for want, version := range map[string][]byte{
		"format version 1":   {1, 0, 0, 0},
		"format version 4":   {4, 0, 0, 0},
		"big-endian machine": {0, 0, 0, 3},
	} {
		_, err := ReadGGUF(bytes.NewReader(append([]byte("GGUF"), append(version, make([]byte, 64)...)...)))
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q in it", version, err, want)
		}
	}
}

func TestCutShort(t *testing.T) {
	path := tiny(t, gguftiny.Options{})[0]
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ReadGGUF(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	// The last bytes before the data are padding.
	for n := int64(4); n < h.DataOffset-32; n += 7 {
		if _, err := ReadGGUF(bytes.NewReader(whole[:n])); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "cut short") {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	if err := os.Truncate(path, h.Size()-1); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadGGUFFile(path); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "tiny.gguf: the file has") {
		t.Errorf("one byte short of its tensors: %v", err)
	}
}

// raw builds headers that no writer would.
type raw struct{ bytes.Buffer }

func (r *raw) put(vs ...any) *raw {
	for _, v := range vs {
		if s, ok := v.(string); ok {
			_ = binary.Write(r, binary.LittleEndian, uint64(len(s)))
			r.WriteString(s)
			continue
		}
		_ = binary.Write(r, binary.LittleEndian, v)
	}
	return r
}

func header(tensors, entries uint64) *raw {
	r := &raw{}
	r.WriteString("GGUF")
	return r.put(uint32(3), tensors, entries)
}

// hostile are headers whose counts must not be believed.
func hostile() map[string]*raw {
	const huge = uint64(1) << 62
	nested := header(0, 1).put("a", uint32(kvArray))
	for range 100 {
		nested.put(uint32(kvArray), uint64(1))
	}
	return map[string]*raw{
		"tensor count":            header(huge, 0),
		"entry count":             header(0, huge),
		"key length":              header(0, 1).put(huge),
		"text length":             header(0, 1).put("general.name", uint32(kvString), huge),
		"array of numbers":        header(0, 1).put("a", uint32(kvArray), uint32(kvUint64), huge),
		"array of texts":          header(0, 1).put("tokenizer.ggml.tokens", uint32(kvArray), uint32(kvString), huge),
		"array of arrays":         header(0, 1).put("a", uint32(kvArray), uint32(kvArray), uint64(maxHeaderBytes)),
		"nesting":                 nested,
		"kept array":              header(0, 1).put("llama.attention.head_count_kv", uint32(kvArray), uint32(kvUint32), uint64(maxHeaderBytes)),
		"value type":              header(0, 1).put("a", uint32(77)),
		"layers":                  header(0, 2).put("general.architecture", uint32(kvString), "x", "x.block_count", uint32(kvUint32), uint32(1<<31-1)),
		"negative size":           header(0, 2).put("general.architecture", uint32(kvString), "x", "x.context_length", uint32(kvInt32), int32(-1)),
		"tensor dimensions":       header(1, 0).put("t", uint32(1<<31)),
		"tensor size wraps round": header(1, 0).put("t", uint32(4), huge, huge, huge, huge, uint32(0), uint64(0)),
		"tensor offset":           header(1, 0).put("t", uint32(1), uint64(1), uint32(0), huge),
	}
}

func TestHostileCountsCostNothing(t *testing.T) {
	for name, r := range hostile() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		// Many bytes follow, so that the end of the file does not hide a belief in the count.
		_, err := ReadGGUF(io.LimitReader(io.MultiReader(r, zeros{}), 64<<20))
		runtime.ReadMemStats(&after)
		if !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
		// Texts in passing are short-lived; what counts is that no claim is allocated at once.
		if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
			t.Errorf("%s: took %d MiB", name, used>>20)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func FuzzReadGGUF(f *testing.F) {
	// Small seeds: the fuzzer shrinks each input it finds, byte by byte.
	f.Add(header(1, 4).put("general.architecture", uint32(kvString), "x", "x.block_count", uint32(kvUint32), uint32(2),
		"x.attention.head_count_kv", uint32(kvArray), uint32(kvUint32), uint64(2), uint32(4), uint32(2),
		"tokenizer.ggml.tokens", uint32(kvArray), uint32(kvString), uint64(2), "a", "b",
		"t", uint32(2), uint64(64), uint64(2), uint32(8), uint64(0)).Bytes())
	shard, err := os.ReadFile(tiny(f, gguftiny.Options{Shards: 3})[1])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(shard[:512])
	for _, r := range hostile() {
		f.Add(r.Bytes())
	}
	f.Add([]byte("version https://git-lfs"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ReadGGUF(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, fault.Invalid) {
				t.Errorf("an error without its code: %v", err)
			}
			return
		}
		if h.DataOffset < 0 || h.DataBytes < 0 || h.Size() < 0 {
			t.Errorf("sizes below zero: %+v", h)
		}
		n := Fit(h, int64(len(data)), 1<<20, 1<<10, F16, F16)
		if n.KVBytes < 0 || n.MarginBytes < 0 || n.Total < n.KVBytes || n.Total < n.WeightsBytes {
			t.Errorf("a need that wrapped round: %+v of %+v", n, h)
		}
	})
}
