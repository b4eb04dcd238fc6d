package llama

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/internal/testkit/gguftiny"
)

func TestOpenModel(t *testing.T) {
	for _, shards := range []int{1, 3} {
		files := tiny(t, gguftiny.Options{Shards: shards})
		m, err := OpenModel(files[0])
		if err != nil {
			t.Fatal(err)
		}
		size := int64(0)
		for _, f := range files {
			st, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			size += st.Size()
		}
		if !slices.Equal(m.Files, files) || m.WeightsBytes != size || m.Header.Architecture != "llama" {
			t.Errorf("%d shards: %+v, want the files %v of %d bytes", shards, m, files, size)
		}
	}
}

func TestOpenModelRefusesWhatCannotLoad(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(files []string) error
		open  int // which file is given
		want  string
	}{
		{"missing shard", func(f []string) error { return os.Remove(f[1]) }, 0, "tiny-00002-of-00003.gguf is missing: file 2 of 3"},
		{"second shard given", func([]string) error { return nil }, 1, "is shard 2 of 3"},
		{"shards mixed up", func(f []string) error { return os.Rename(f[2], f[1]) }, 0, "says it is shard 3 of 3, its name says 2 of 3"},
		{"shard cut short", func(f []string) error { return os.Truncate(f[2], 90000) }, 0, "its tensors need"},
		{"shard overwritten", func(f []string) error { return os.WriteFile(f[1], []byte("<html>"), 0o600) }, 0, "is a web page"},
	} {
		files := tiny(t, gguftiny.Options{Shards: 3})
		if err := c.spoil(files); err != nil {
			t.Fatal(err)
		}
		_, err := OpenModel(files[c.open])
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
	}
	renamed := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.Rename(tiny(t, gguftiny.Options{Shards: 2})[0], renamed); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenModel(renamed); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "NAME-00001-of-00002.gguf") {
		t.Errorf("a renamed first shard: %v", err)
	}
}
