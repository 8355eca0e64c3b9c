package ioactor

import (
	"context"

	"github.com/layerpipe/layerpipe/ring"
)

// Pread loads blocks with positional reads through the page cache, one at a
// time. In a ring of one slot it is the serial, synchronous reader; in a deeper
// ring it reads ahead.
type Pread struct {
	files []File
	offs  []int64
	hint  Hint
}

// OpenPread opens the files at paths.
func OpenPread(paths []string, hint Hint) (*Pread, error) {
	files, err := OpenFiles(paths)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		hint.open(f)
	}
	return &Pread{files: files, hint: hint}, nil
}

// NewPread reads from files, which it owns from now on.
func NewPread(files []File) *Pread { return &Pread{files: files} }

// Load implements [Backend].
func (r *Pread) Load(ctx context.Context, b *Block, s *ring.Slot) error {
	r.offs, _ = b.Place(r.offs)
	s.Parts = s.Parts[:0]
	r.hint.before(b, func(i int) File { return r.files[i] })
	for i, e := range b.Extents {
		p := s.Load()[r.offs[i]:][:e.Size]
		if err := ReadFull(ctx, r.files[e.File], p, e.Off); err != nil {
			return err
		}
		r.hint.after(r.files[e.File], e)
		s.Parts = append(s.Parts, p)
	}
	return nil
}

// Close implements [Backend].
func (r *Pread) Close() error { return CloseFiles(r.files) }
