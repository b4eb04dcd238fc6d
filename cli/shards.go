package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"interlock.sh/fault"
	"interlock.sh/llama"
)

// expandShards puts the other shards of a split GGUF behind the first one, and refuses a set that is
// not whole. Files named twice count once.
func expandShards(cwd string, named []string) ([]string, error) {
	var paths []string
	add := func(path string) {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	for _, path := range named {
		if !filepath.IsAbs(path) {
			path = filepath.Join(cwd, path)
		}
		names := llama.ShardNames(filepath.Base(path))
		if names == nil {
			add(filepath.Clean(path))
			continue
		}
		var missing []string
		for _, name := range names {
			shard := filepath.Join(filepath.Dir(path), name)
			if _, err := os.Stat(shard); errors.Is(err, fs.ErrNotExist) {
				missing = append(missing, name)
			}
			add(shard)
		}
		if len(missing) > 0 {
			return nil, fault.New(fault.Invalid, "%d of %d shards are missing in %s: %s",
				len(missing), len(names), filepath.Dir(path), strings.Join(missing, ", ")).
				WithHint("a split model runs only whole: download the missing files beside the first")
		}
	}
	return paths, nil
}

// checkGGUF refuses what llama.cpp cannot load before it is uploaded: a file of another kind, one that
// was cut off, shards of a set that is not whole.
func checkGGUF(paths []string) error {
	for _, path := range paths {
		h, err := llama.ReadGGUFFile(path)
		if err != nil {
			return err
		}
		if h.Split() && h.SplitCount > len(paths) {
			return fault.New(fault.Invalid, "%s is shard %d of %d, and %d files were given", path, h.SplitNo+1, h.SplitCount, len(paths)).
				WithHint("name the first shard, the one with -00001-of- in its name; the others are found beside it")
		}
	}
	return nil
}
