package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
)

// split is what a file says of its place in a split model, in the keys that
// llama.cpp's gguf-split writes: -1 for a key that is absent. A count of 0 or
// 1 is a whole model (gguf-split leaves 0 when it merges).
type split struct {
	no, count, tensors int
}

var absentSplit = split{no: -1, count: -1, tensors: -1}

func (s *split) set(key string, n int) {
	switch key {
	case keySplitNo:
		s.no = n
	case keySplitCount:
		s.count = n
	case keySplitTensors:
		s.tensors = n
	}
}

// checkSplit tests what a single file says of its place against itself.
func (f *File) checkSplit() error {
	s, n := f.split, len(f.Tensors)
	switch {
	case s.count <= 1 && s.tensors >= 0 && s.tensors != n:
		return fmt.Errorf("%w: %s: metadata %q is %d, but the file has %d tensors",
			ErrFormat, f.Paths[0], keySplitTensors, s.tensors, n)
	case s.count > 1 && (s.no < 0 || s.no >= s.count):
		return fmt.Errorf("%w: %s: metadata %q is %d, not in 0 to %d", ErrFormat, f.Paths[0], keySplitNo, s.no, s.count-1)
	case s.count > 1 && s.tensors < n:
		return fmt.Errorf("%w: %s: metadata %q is %d, but this shard alone has %d tensors",
			ErrFormat, f.Paths[0], keySplitTensors, s.tensors, n)
	}
	return nil
}

// shardName splits the path of a shard before its number. Shards are numbered
// from 1 in names and from 0 in metadata.
var shardName = regexp.MustCompile(`^(?s:(.*))(-\d{5}-of-\d{5}\.gguf)$`)

// openRest opens the shards of the model of which f is one, and returns the
// model.
func (f *File) openRest() (*File, error) {
	count := f.split.count
	name := shardName.FindStringSubmatch(f.Paths[0])
	if want := fmt.Sprintf("-%05d-of-%05d.gguf", f.split.no+1, count); name == nil || name[2] != want {
		return nil, fmt.Errorf("%w: %s: metadata %q and %q call for a name that ends in %s",
			ErrFormat, f.Paths[0], keySplitNo, keySplitCount, want)
	}

	all := &File{index: map[string]int{}}
	for i := range count {
		path := fmt.Sprintf("%s-%05d-of-%05d.gguf", name[1], i+1, count)
		shard := f
		if path != f.Paths[0] {
			var err error
			shard, err = openFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("%w: no %s, %d of %d, beside %s", ErrShard, filepath.Base(path), i+1, count, f.Paths[0])
			}
			if err != nil {
				return nil, fmt.Errorf("shard %d of %d: %w", i+1, count, err)
			}
		}
		if want := (split{i, count, f.split.tensors}); shard.split != want {
			return nil, fmt.Errorf("%w: %s: metadata %q, %q and %q are %d, %d and %d where %d, %d and %d are expected",
				ErrFormat, path, keySplitNo, keySplitCount, keySplitTensors,
				shard.split.no, shard.split.count, shard.split.tensors, want.no, want.count, want.tensors)
		}
		if err := all.add(shard); err != nil {
			return nil, err
		}
	}
	if len(all.Tensors) != f.split.tensors {
		return nil, fmt.Errorf("%w: %s: metadata %q is %d, but the shards have %d tensors",
			ErrFormat, all.Paths[0], keySplitTensors, f.split.tensors, len(all.Tensors))
	}
	return all, nil
}

// add appends the next shard to the model f.
func (f *File) add(shard *File) error {
	n := len(f.Paths)
	if n == 0 {
		f.Version, f.BigEndian, f.Alignment = shard.Version, shard.BigEndian, shard.Alignment
		f.Metadata, f.split = shard.Metadata, shard.split
	}
	path := shard.Paths[0]
	f.Paths = append(f.Paths, path)
	f.Sizes = append(f.Sizes, shard.Sizes[0])
	if shard.BigEndian != f.BigEndian {
		return fmt.Errorf("%w: %s: not of the byte order of %s", ErrFormat, path, f.Paths[0])
	}
	if len(shard.Tensors) > MaxTensors-len(f.Tensors) {
		return fmt.Errorf("%w: %s: more than %d tensors", ErrUnsupported, path, MaxTensors)
	}
	for _, t := range shard.Tensors {
		if i, dup := f.index[t.Name]; dup {
			return fmt.Errorf("%w: %s: tensor %s: byte %d: %s has a tensor of this name too",
				ErrFormat, path, quote(t.Name), t.Offset, f.Paths[f.Tensors[i].File])
		}
		t.File = n
		f.index[t.Name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, t)
	}
	return nil
}
