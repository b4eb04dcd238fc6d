package llama

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"interlock.sh/fault"
)

// Model is a model on disk whose headers were read.
type Model struct {
	Header       Header   // of the first file, which has the metadata
	Files        []string // all files, the first one first
	WeightsBytes int64    // of all files together
}

// OpenModel reads the headers of a model given its first file, and of all shards when it is split. It
// finds, before a server is started, what llama-server would say only in a log that it may not finish:
// a missing or cut-off file, a shard of another model, something that is no GGUF.
func OpenModel(first string) (Model, error) {
	h, err := ReadGGUFFile(first)
	if err != nil {
		return Model{}, err
	}
	m := Model{Header: h, Files: []string{first}}
	name := filepath.Base(first)
	switch names := ShardNames(name); {
	case h.Architecture == "" && h.SplitNo > 0:
		return Model{}, fault.New(fault.Invalid, "%s is shard %d of %d of a split model", name, h.SplitNo+1, h.SplitCount).
			WithHint("give the first shard")
	case h.Architecture == "":
		return Model{}, fault.New(fault.Invalid, "%s names no model architecture", name).
			WithHint("convert the model again with a recent llama.cpp")
	case h.Split() && len(names) != h.SplitCount:
		return Model{}, fault.New(fault.Invalid, "%s is the first of %d shards, and its name must be as llama.cpp's: %s", name, h.SplitCount,
			fmt.Sprintf(shardName, "NAME", 1, h.SplitCount)).WithHint("rename the shards")
	case h.Split():
		m.Files = nil
		for _, n := range names {
			m.Files = append(m.Files, filepath.Join(filepath.Dir(first), n))
		}
	}
	tensors := 0
	for i, f := range m.Files {
		part, err := readShard(f, i, h)
		if err != nil {
			return Model{}, err
		}
		st, err := os.Stat(f)
		if err != nil {
			return Model{}, fmt.Errorf("stat model: %w", err)
		}
		m.WeightsBytes += st.Size()
		tensors += part.TensorCount
	}
	if h.Split() && h.SplitTensors != 0 && tensors != h.SplitTensors {
		return Model{}, fault.New(fault.Invalid, "%s: the shards hold %d tensors, the model has %d", name, tensors, h.SplitTensors).
			WithHint("the shards are not of one model: fetch them again")
	}
	return m, nil
}

// readShard reads file number i of a model whose first header is h.
func readShard(path string, i int, h Header) (Header, error) {
	part, err := ReadGGUFFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Header{}, fault.Wrap(err, fault.Invalid, "the shard %s is missing: file %d of %d", filepath.Base(path), i+1, h.SplitCount).
			WithHint("fetch it; a split model needs all its files in one folder")
	}
	if err != nil {
		return Header{}, err
	}
	if part.SplitNo != i || part.SplitCount != h.SplitCount {
		return Header{}, fault.New(fault.Invalid, "%s says it is shard %d of %d, its name says %d of %d",
			filepath.Base(path), part.SplitNo+1, part.SplitCount, i+1, h.SplitCount).
			WithHint("the files were mixed up: fetch them again")
	}
	return part, nil
}
