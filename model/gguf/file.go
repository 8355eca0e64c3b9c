package gguf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
	"slices"
)

// A File describes a model: the metadata, and where each tensor's data lies.
// It holds no data and no open file. It is not modified after [Open] or
// [Parse] has returned it, and any number of goroutines may read it.
type File struct {
	Paths     []string  // one per shard; one for a model that is not split
	Sizes     []int64   // bytes of each shard
	Version   int       // of the format, 2 or 3; of the first shard
	BigEndian bool      // byte order of header and data, the same in all shards
	Alignment int64     // of tensor data, in bytes; of the first shard
	Metadata  *Metadata // of the first shard
	Tensors   []Tensor  // in file order, shard by shard

	index map[string]int // name to position in Tensors
	split split
}

// A Tensor says what a tensor is and where its data lies.
type Tensor struct {
	Name string
	Type Type
	// Dims holds 1 to 4 dimensions, none of them 0. Dims[0] is the length of a
	// row: the elements that lie together. It is a multiple of
	// Type.BlockValues().
	Dims   []int
	File   int   // index into File.Paths
	Offset int64 // of the first byte in that file, a multiple of its alignment
	Size   int64 // in bytes; Offset+Size is within the file
}

// Rows returns the number of rows: the product of Dims[1:].
func (t *Tensor) Rows() int {
	n := 1
	for _, d := range t.Dims[1:] {
		n *= d
	}
	return n
}

// Largest returns the index of the largest file. It says most about the storage
// that a model is read from: the first shard may hold nothing but metadata.
func (f *File) Largest() int {
	most := 0
	for i, size := range f.Sizes {
		if size > f.Sizes[most] {
			most = i
		}
	}
	return most
}

// Tensor returns the tensor called name, and whether the model has it. The
// pointer is into f.Tensors.
func (f *File) Tensor(name string) (*Tensor, bool) {
	i, ok := f.index[name]
	if !ok {
		return nil, false
	}
	return &f.Tensors[i], true
}

// Open reads the header of the file at path. If that is a shard of a split
// model (model-00002-of-00005.gguf, whichever of them), Open reads the others'
// too and returns the whole model. No file stays open.
//
// A file that is missing or can't be read gives the error of package os, which
// names it; other shards that are missing give [ErrShard]. Other errors are
// [ErrFormat] and [ErrUnsupported], and name the file, the key or tensor, and the
// byte offset.
func Open(path string) (*File, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	if f.split.count <= 1 {
		return f, nil
	}
	return f.openRest()
}

// openFile parses one file.
func openFile(path string) (*File, error) {
	// Opening a pipe would wait for its writer, so look first.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s: not a regular file", ErrFormat, path)
	}
	r, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return Parse(path, r, info.Size())
}

// Parse reads the header of one file of size bytes from r; name stands for it
// in errors and in File.Paths. It is for models that are not files, such as
// embedded ones. Of a split model it returns the tensors of the one shard.
// The errors are those of [Open], and those of r.
func Parse(name string, r io.ReaderAt, size int64) (*File, error) {
	d := newDecoder(name, r, size)
	f := &File{
		Paths:     []string{name},
		Sizes:     []int64{d.size},
		Alignment: defaultAlignment,
		Metadata:  &Metadata{},
		split:     absentSplit,
	}
	if err := f.parse(d); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) parse(d *decoder) error {
	magic, err := d.next(4)
	if err != nil {
		return err
	}
	if string(magic) != "GGUF" {
		return d.errorAt(0, ErrFormat, "the file begins with %q, not %q", magic, "GGUF")
	}
	version, err := d.uint32()
	if err != nil {
		return err
	}
	// The magic is the same bytes in either byte order; the version, a small
	// number, is the first that tells them apart.
	if version&0xffff == 0 && version != 0 {
		f.BigEndian = true
		d.order = binary.BigEndian
		version = bits.ReverseBytes32(version)
	}
	if version != 2 && version != 3 {
		return d.errorAt(4, ErrUnsupported, "version %d", version)
	}
	f.Version = int(version)

	// Least sizes: a tensor has a name, 1 dimension, type and offset; a pair
	// has a key, a type and 1 byte of value.
	tensors, err := d.count("tensors", MaxTensors, 8+4+8+4+8)
	if err != nil {
		return err
	}
	keys, err := d.count("metadata pairs", MaxKeys, 8+4+1)
	if err != nil {
		return err
	}
	d.section = "metadata"
	for d.item = range keys {
		if err := f.parsePair(d); err != nil {
			return err
		}
	}
	d.section = "tensor"
	f.Tensors = make([]Tensor, tensors)
	f.index = make(map[string]int, tensors)
	for d.item = range tensors {
		if err := f.parseTensor(d); err != nil {
			return err
		}
	}
	if err := f.place(d); err != nil {
		return err
	}
	return f.checkSplit()
}

// parsePair reads one key and its value.
func (f *File) parsePair(d *decoder) error {
	d.label = ""
	off := d.pos()
	key, err := d.str(MaxNameBytes)
	if err != nil {
		return err
	}
	d.label = key
	if _, dup := f.Metadata.Value(key); dup {
		return d.errorAt(off, ErrFormat, "the key is there twice")
	}
	t, err := d.uint32()
	if err != nil {
		return err
	}
	off = d.pos()
	v, err := d.value(valueType(t))
	if err != nil {
		return err
	}
	f.Metadata.Set(key, v)

	switch key {
	case keyAlignment:
		u, ok := v.(uint32)
		if !ok {
			return d.errorAt(off, ErrFormat, "value of type %T where uint32 is expected", v)
		}
		if bits.OnesCount32(u) != 1 {
			return d.errorAt(off, ErrFormat, "alignment %d is not a power of two", u)
		}
		if u > MaxAlignment {
			return d.errorAt(off, ErrUnsupported, "alignment %d, more than %d", u, MaxAlignment)
		}
		f.Alignment = int64(u)
	case keySplitNo, keySplitCount, keySplitTensors:
		n, ok := integer(v)
		if !ok {
			return d.errorAt(off, ErrFormat, "value of type %T where an integer is expected", v)
		}
		if n < 0 {
			return d.errorAt(off, ErrFormat, "count %d", n)
		}
		f.split.set(key, n)
	}
	return nil
}

// parseTensor reads entry d.item of the tensor table. The offset that it
// stores is relative to the start of the data.
func (f *File) parseTensor(d *decoder) error {
	t := &f.Tensors[d.item]
	d.label = ""
	off := d.pos()
	var err error
	if t.Name, err = d.str(MaxNameBytes); err != nil {
		return err
	}
	d.label = t.Name
	if _, dup := f.index[t.Name]; dup {
		return d.errorAt(off, ErrFormat, "the tensor is there twice")
	}
	f.index[t.Name] = d.item

	off = d.pos()
	dims, err := d.uint32()
	if err != nil {
		return err
	}
	if dims < 1 || dims > 4 {
		return d.errorAt(off, ErrFormat, "%d dimensions", dims)
	}
	t.Dims = make([]int, dims)
	off = d.pos()
	for i := range t.Dims {
		n, err := d.uint64()
		if err != nil {
			return err
		}
		if n > math.MaxInt {
			return d.errorAt(off, ErrFormat, "dimension %d is %d", i, n)
		}
		t.Dims[i] = int(n)
	}
	typ, err := d.uint32()
	if err != nil {
		return err
	}
	t.Type = Type(typ)
	if !t.Type.Known() {
		return d.errorf(ErrUnsupported, "tensor type %d", typ)
	}
	if t.Size, err = dataSize(t.Type, t.Dims); err != nil {
		return d.errorAt(off, ErrFormat, "%v", err)
	}

	off = d.pos()
	rel, err := d.uint64()
	if err != nil {
		return err
	}
	if rel%uint64(f.Alignment) != 0 {
		return d.errorAt(off, ErrFormat, "offset %d is not a multiple of the alignment %d", rel, f.Alignment)
	}
	if rel > uint64(d.size) {
		return d.errorAt(off, ErrFormat, "offset %d is beyond the end of the file", rel)
	}
	t.Offset = int64(rel)
	return nil
}

// dataSize returns the bytes that a tensor of known type typ takes.
func dataSize(typ Type, dims []int) (int64, error) {
	n := uint64(1)
	for i, d := range dims {
		if d <= 0 {
			return 0, fmt.Errorf("dimension %d is %d", i, d)
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, fmt.Errorf("the product of dimensions %v overflows", dims)
		}
		n = lo
	}
	if dims[0]%typ.BlockValues() != 0 {
		return 0, fmt.Errorf("a row of %d elements is not a multiple of %s's block of %d", dims[0], typ, typ.BlockValues())
	}
	hi, lo := bits.Mul64(n/uint64(typ.BlockValues()), uint64(typ.BlockBytes()))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, fmt.Errorf("the size of dimensions %v of %s overflows", dims, typ)
	}
	return int64(lo), nil
}

// place turns the offsets of the tensor table into offsets in the file, d
// being at the end of the table, and checks that each tensor lies within the
// file and that no two overlap.
func (f *File) place(d *decoder) error {
	if len(f.Tensors) == 0 {
		return nil
	}
	data := alignUp(d.pos(), f.Alignment)
	for i := range f.Tensors {
		t := &f.Tensors[i]
		// Compared by subtraction, since the sum of what a file says can wrap.
		if room := d.size - data - t.Offset; room < t.Size {
			d.label = t.Name
			return d.errorAt(data, ErrFormat, "data of %d bytes at offset %d from here, but the file ends at byte %d",
				t.Size, t.Offset, d.size)
		}
		t.Offset += data
	}
	byOffset := make([]*Tensor, len(f.Tensors))
	for i := range f.Tensors {
		byOffset[i] = &f.Tensors[i]
	}
	slices.SortFunc(byOffset, func(a, b *Tensor) int { return cmp.Compare(a.Offset, b.Offset) })
	for i, t := range byOffset[1:] {
		if before := byOffset[i]; t.Offset-before.Offset < before.Size {
			d.label = t.Name
			return d.errorAt(t.Offset, ErrFormat, "overlaps tensor %s, which is %d bytes from byte %d",
				quote(before.Name), before.Size, before.Offset)
		}
	}
	return nil
}

// alignUp returns the least multiple of align, a power of two, that is not
// below n.
func alignUp(n, align int64) int64 { return (n + align - 1) &^ (align - 1) }
