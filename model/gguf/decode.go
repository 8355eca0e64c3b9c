package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	windowBytes = 64 << 10 // one read; most headers without a vocabulary fit
	arenaBytes  = 64 << 10 // strings are cut from pieces of this size
)

// A decoder reads the primitives of a header from start to end.
type decoder struct {
	name  string // of the file, for errors
	r     io.ReaderAt
	size  int64 // of the file
	end   int64 // the decoder reads no byte from here on: size, or MaxHeaderBytes
	order binary.ByteOrder

	window  []byte
	lo, hi  int   // window[lo:hi] is read from the file but not yet decoded
	loaded  int64 // offset in the file of window[hi]
	strings *strings.Builder

	// What is being read, for errors: "metadata" or "tensor", its position in
	// the list, and its name once that is known.
	section string
	item    int
	label   string
}

func newDecoder(name string, r io.ReaderAt, size int64) *decoder {
	size = max(size, 0)
	end := min(size, MaxHeaderBytes)
	return &decoder{
		name: name, r: r, size: size, end: end,
		order:   binary.LittleEndian,
		window:  make([]byte, min(windowBytes, end)),
		strings: new(strings.Builder),
		section: "header",
	}
}

// pos returns the offset of the next byte to decode.
func (d *decoder) pos() int64 { return d.loaded - int64(d.hi-d.lo) }

// left returns how many bytes the rest of the header can have.
func (d *decoder) left() uint64 { return uint64(d.end - d.pos()) }

// errorf returns an error of the given kind that names the file, the item
// being read, and the offset where reading has come to.
func (d *decoder) errorf(kind error, format string, args ...any) error {
	return d.errorAt(d.pos(), kind, format, args...)
}

func (d *decoder) errorAt(off int64, kind error, format string, args ...any) error {
	what := d.section
	if d.label != "" {
		what = fmt.Sprintf("%s %s", d.section, quote(d.label))
	} else if d.section != "header" {
		what = fmt.Sprintf("%s %d", d.section, d.item)
	}
	return fmt.Errorf("%w: %s: %s: byte %d: %s", kind, d.name, what, off, fmt.Sprintf(format, args...))
}

// quote quotes a name that comes from a file. It may be long and hold anything.
func quote(s string) string { return fmt.Sprintf("%.200q", s) }

// short returns the error for n bytes that are not there.
func (d *decoder) short(n uint64) error {
	if d.end < d.size {
		return d.errorf(ErrUnsupported, "header of more than %d bytes", d.end)
	}
	return d.errorf(ErrFormat, "%d bytes expected, the file has %d more", n, d.left())
}

// next returns the next n bytes, n being at most windowBytes. They are valid
// until the next call.
func (d *decoder) next(n int) ([]byte, error) {
	if uint64(n) > d.left() {
		return nil, d.short(uint64(n))
	}
	if d.hi-d.lo < n {
		d.hi = copy(d.window, d.window[d.lo:d.hi])
		d.lo = 0
		p := d.window[d.hi:min(int64(len(d.window)), int64(d.hi)+d.end-d.loaded)]
		if m, err := d.r.ReadAt(p, d.loaded); m < len(p) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("gguf: read %s: bytes %d to %d: %w", d.name, d.loaded, d.loaded+int64(len(p)), err)
		}
		d.hi += len(p)
		d.loaded += int64(len(p))
	}
	d.lo += n
	return d.window[d.lo-n : d.lo], nil
}

func (d *decoder) uint32() (uint32, error) {
	b, err := d.next(4)
	if err != nil {
		return 0, err
	}
	return d.order.Uint32(b), nil
}

func (d *decoder) uint64() (uint64, error) {
	b, err := d.next(8)
	if err != nil {
		return 0, err
	}
	return d.order.Uint64(b), nil
}

// count reads the number of some items, each of which takes at least least
// bytes of the header, and refuses more than the limit or than can follow.
func (d *decoder) count(what string, limit, least uint64) (int, error) {
	n, err := d.uint64()
	if err != nil {
		return 0, err
	}
	if n > d.left()/least {
		if d.end < d.size && n <= uint64(d.size-d.pos())/least {
			return 0, d.short(0)
		}
		return 0, d.errorf(ErrFormat, "%d %s, but only %d bytes follow", n, what, d.left())
	}
	if n > limit {
		return 0, d.errorf(ErrUnsupported, "%d %s, more than %d", n, what, limit)
	}
	return int(n), nil
}

// str reads a string of at most limit bytes. Strings share the memory that
// they are cut from, so that a vocabulary costs a few hundred allocations.
func (d *decoder) str(limit uint64) (string, error) {
	n, err := d.count("bytes of string", limit, 1)
	if err != nil {
		return "", err
	}
	s := d.strings
	if n > s.Cap()-s.Len() {
		s = new(strings.Builder)
		if n > arenaBytes/4 {
			s.Grow(n) // its own piece; the rest of the old one stays in use
		} else {
			s.Grow(int(min(arenaBytes, uint64(n)+d.left())))
			d.strings = s
		}
	}
	start := s.Len()
	for n > 0 {
		b, err := d.next(min(n, windowBytes))
		if err != nil {
			return "", err
		}
		s.Write(b)
		n -= len(b)
	}
	return s.String()[start:], nil
}
