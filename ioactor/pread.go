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
}

// OpenPread opens the files at paths.
func OpenPread(paths []string) (*Pread, error) {
	files, err := OpenFiles(paths)
	if err != nil {
		return nil, err
	}
	return NewPread(files), nil
}

// NewPread reads from files, which it owns from now on.
func NewPread(files []File) *Pread { return &Pread{files: files} }

// Load implements [Backend].
func (r *Pread) Load(ctx context.Context, b *Block, s *ring.Slot) error {
	r.offs, _ = b.Place(r.offs)
	s.Parts = s.Parts[:0]
	for i, e := range b.Extents {
		p := s.Load()[r.offs[i]:][:e.Size]
		if err := ReadFull(ctx, r.files[e.File], p, e.Off); err != nil {
			return err
		}
		s.Parts = append(s.Parts, p)
	}
	return nil
}

// Close implements [Backend].
func (r *Pread) Close() error { return CloseFiles(r.files) }
