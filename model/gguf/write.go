package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"reflect"
	"slices"
)

// A TensorSpec says what tensor to write: its name, type and dimensions, as in
// [Tensor].
type TensorSpec struct {
	Name string
	Type Type
	Dims []int
}

// A Writer writes one GGUF file, version 3 and little-endian: the header at
// once, then the data of one tensor after the other, none of which it keeps.
//
//	w, err := gguf.NewWriter(file, metadata, specs)
//	for _, t := range w.Tensors() {
//		err = w.WriteTensor(t.Name, fill)
//	}
//	err = w.Close()
//
// After an error the file is of no use, and every further call returns that
// error.
type Writer struct {
	w       io.Writer
	align   int64
	tensors []Tensor
	next    int // index of the tensor to write
	err     error
}

// NewWriter writes to w the header of a file with the pairs of m and the given
// tensors. It writes from the place where w is, which must be the start of the
// file. Data is aligned to m's general.alignment, a uint32, or to 32 bytes.
//
// It refuses what [Parse] would refuse, before it writes anything; only the
// split keys it takes as they are. m and tensors are not kept.
func NewWriter(w io.Writer, m *Metadata, tensors []TensorSpec) (*Writer, error) {
	h, err := appendMetadata(nil, m, len(tensors))
	if err != nil {
		return nil, err
	}
	enc := &Writer{w: w, align: defaultAlignment, tensors: make([]Tensor, len(tensors))}
	if v, ok := m.Value(keyAlignment); ok {
		u, ok := v.(uint32)
		if !ok || bits.OnesCount32(u) != 1 || u > MaxAlignment {
			return nil, fmt.Errorf("gguf: write metadata %q: %v is not a uint32 that is a power of two up to %d", keyAlignment, v, MaxAlignment)
		}
		enc.align = int64(u)
	}

	if len(tensors) > MaxTensors {
		return nil, fmt.Errorf("gguf: write: %d tensors, more than %d", len(tensors), MaxTensors)
	}
	seen := make(map[string]bool, len(tensors))
	var off int64 // relative to the start of the data
	for i, s := range tensors {
		if seen[s.Name] {
			return nil, fmt.Errorf("gguf: write tensor %s: it is there twice", quote(s.Name))
		}
		seen[s.Name] = true
		size, err := s.size()
		if err == nil && off+alignUp(size, enc.align) < off {
			err = errors.New("the size of the file overflows")
		}
		if err != nil {
			return nil, fmt.Errorf("gguf: write tensor %s: %w", quote(s.Name), err)
		}
		enc.tensors[i] = Tensor{Name: s.Name, Type: s.Type, Dims: slices.Clone(s.Dims), Offset: off, Size: size}

		h = appendString(h, s.Name)
		h = le.AppendUint32(h, uint32(len(s.Dims)))
		for _, d := range s.Dims {
			h = le.AppendUint64(h, uint64(d))
		}
		h = le.AppendUint32(h, uint32(s.Type))
		h = le.AppendUint64(h, uint64(off))
		off += alignUp(size, enc.align)
	}
	data := alignUp(int64(len(h)), enc.align)
	if data > MaxHeaderBytes {
		return nil, fmt.Errorf("gguf: write: header of %d bytes, more than %d", data, MaxHeaderBytes)
	}
	if off > math.MaxInt64-data {
		return nil, errors.New("gguf: write: the size of the file overflows")
	}
	for i := range enc.tensors {
		enc.tensors[i].Offset += data
	}
	h = append(h, make([]byte, data-int64(len(h)))...)
	if _, err := w.Write(h); err != nil {
		return nil, fmt.Errorf("gguf: write header: %w", err)
	}
	return enc, nil
}

// size returns the bytes that the tensor takes, or what is wrong with it.
func (s TensorSpec) size() (int64, error) {
	if len(s.Name) > MaxNameBytes {
		return 0, fmt.Errorf("name of %d bytes", len(s.Name))
	}
	if len(s.Dims) < 1 || len(s.Dims) > 4 {
		return 0, fmt.Errorf("%d dimensions", len(s.Dims))
	}
	if !s.Type.Known() {
		return 0, fmt.Errorf("tensor %v", s.Type)
	}
	return dataSize(s.Type, s.Dims)
}

// Tensors returns the table as [Parse] will read it, offsets and sizes
// included. The caller must not modify it.
func (w *Writer) Tensors() []Tensor { return w.tensors }

// WriteTensor writes the data of the next tensor, which must be the one called
// name: fill writes it, exactly as many bytes as the type and the dimensions
// make, and what it writes beyond is refused. It must not keep its argument.
func (w *Writer) WriteTensor(name string, fill func(io.Writer) error) error {
	if w.err == nil {
		if err := w.writeTensor(name, fill); err != nil {
			w.err = fmt.Errorf("gguf: write tensor %s: %w", quote(name), err)
		}
	}
	return w.err
}

func (w *Writer) writeTensor(name string, fill func(io.Writer) error) error {
	if w.next == len(w.tensors) {
		return errors.New("all tensors are written")
	}
	t := &w.tensors[w.next]
	if t.Name != name {
		return fmt.Errorf("%s is the next tensor", quote(t.Name))
	}
	data := &exactWriter{w.w, t.Size}
	if err := fill(data); err != nil {
		return err
	}
	if data.left != 0 {
		return fmt.Errorf("%d bytes of data where %d are expected", t.Size-data.left, t.Size)
	}
	// The last tensor is padded too: some readers want it.
	if _, err := w.w.Write(make([]byte, alignUp(t.Size, w.align)-t.Size)); err != nil {
		return err
	}
	w.next++
	return nil
}

// Close ends the file. It fails if a tensor is missing. It does not close the
// writer that the file went to.
func (w *Writer) Close() error {
	if w.err == nil && w.next < len(w.tensors) {
		w.err = fmt.Errorf("gguf: write: closed before tensor %s", quote(w.tensors[w.next].Name))
	}
	return w.err
}

// An exactWriter lets left more bytes pass.
type exactWriter struct {
	w    io.Writer
	left int64
}

func (w *exactWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > w.left {
		return 0, fmt.Errorf("%d bytes more than the tensor has", int64(len(p))-w.left)
	}
	n, err := w.w.Write(p)
	w.left -= int64(n)
	return n, err
}

var le = binary.LittleEndian

// appendMetadata appends to h the start of a file: all up to the tensor table.
func appendMetadata(h []byte, m *Metadata, tensors int) ([]byte, error) {
	keys := m.Keys()
	if len(keys) > MaxKeys {
		return nil, fmt.Errorf("gguf: write: %d metadata pairs, more than %d", len(keys), MaxKeys)
	}
	h = append(h, "GGUF"...)
	h = le.AppendUint32(h, 3)
	h = le.AppendUint64(h, uint64(tensors))
	h = le.AppendUint64(h, uint64(len(keys)))
	for _, key := range keys {
		if len(key) > MaxNameBytes {
			return nil, fmt.Errorf("gguf: write metadata %s: key of %d bytes", quote(key), len(key))
		}
		v, _ := m.Value(key)
		t, err := valueTypeOf(reflect.TypeOf(v))
		if err == nil {
			h = appendString(h, key)
			h = le.AppendUint32(h, uint32(t))
			h, err = appendValue(h, reflect.ValueOf(v), 0)
		}
		if err != nil {
			return nil, fmt.Errorf("gguf: write metadata %s: %w", quote(key), err)
		}
	}
	return h, nil
}

func appendString(h []byte, s string) []byte {
	return append(le.AppendUint64(h, uint64(len(s))), s...)
}

// valueTypeOf returns the type that metadata of Go type t is written with.
func valueTypeOf(t reflect.Type) (valueType, error) {
	if t == nil {
		return 0, errors.New("the value is nil")
	}
	switch t.Kind() {
	case reflect.Uint8:
		return valueUint8, nil
	case reflect.Int8:
		return valueInt8, nil
	case reflect.Uint16:
		return valueUint16, nil
	case reflect.Int16:
		return valueInt16, nil
	case reflect.Uint32:
		return valueUint32, nil
	case reflect.Int32:
		return valueInt32, nil
	case reflect.Float32:
		return valueFloat32, nil
	case reflect.Bool:
		return valueBool, nil
	case reflect.String:
		return valueString, nil
	case reflect.Slice:
		return valueArray, nil
	case reflect.Uint64:
		return valueUint64, nil
	case reflect.Int64:
		return valueInt64, nil
	case reflect.Float64:
		return valueFloat64, nil
	}
	return 0, fmt.Errorf("a %v has no GGUF type", t)
}

// appendValue appends a metadata value that lies in depth arrays.
func appendValue(h []byte, v reflect.Value, depth int) ([]byte, error) {
	switch v.Kind() {
	case reflect.String:
		if v.Len() > MaxStringBytes {
			return nil, fmt.Errorf("string of %d bytes, more than %d", v.Len(), MaxStringBytes)
		}
		return appendString(h, v.String()), nil
	case reflect.Slice:
		return appendArray(h, v, depth+1)
	default:
		return binary.Append(h, le, v.Interface())
	}
}

// appendArray appends an array that is the depth-th of its nest.
func appendArray(h []byte, v reflect.Value, depth int) ([]byte, error) {
	if v.Len() > MaxArrayLen {
		return nil, fmt.Errorf("array of %d elements, more than %d", v.Len(), MaxArrayLen)
	}
	if depth > MaxArrayDepth {
		return nil, fmt.Errorf("arrays nested more than %d deep", MaxArrayDepth)
	}
	elem := valueArray // what a []any must hold
	if t := v.Type().Elem(); t.Kind() != reflect.Interface {
		var err error
		if elem, err = valueTypeOf(t); err != nil {
			return nil, err
		}
	}
	h = le.AppendUint32(h, uint32(elem))
	h = le.AppendUint64(h, uint64(v.Len()))
	if elem != valueString && elem != valueArray {
		return binary.Append(h, le, v.Interface())
	}
	for i := range v.Len() {
		x := v.Index(i)
		if x.Kind() == reflect.Interface {
			x = x.Elem()
		}
		if elem == valueArray && x.Kind() != reflect.Slice {
			return nil, errors.New("a []any that holds something else than slices")
		}
		var err error
		if h, err = appendValue(h, x, depth); err != nil {
			return nil, err
		}
	}
	return h, nil
}
