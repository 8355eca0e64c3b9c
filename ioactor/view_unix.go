//go:build unix

package ioactor

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/layerpipe/layerpipe/ring"
)

// View loads blocks without copying them: a slot's parts lie in mappings of the
// files, and its load area, which may be of size 0, is not used. Load returns
// when the pages are there, so that who computes on them does not wait for
// storage, and takes the pages of the block that the slot held before out of
// the process again: no more blocks are mapped than the ring has slots.
//
// The parts are read-only memory of the file. If the file becomes shorter after
// the load, or the system has taken a page away under memory pressure and
// cannot read it again, reading them faults. That ends the program, but for a
// goroutine that has called debug.SetPanicOnFault: it panics, with a
// runtime.Error that says at which address (a method Addr, see there).
type View struct {
	files []mapping
	held  map[*ring.Slot][]Extent // what each slot shows
}

// OpenView maps the files at paths. They stay mapped until Close, after which
// no part may be used.
func OpenView(paths []string) (*View, error) {
	files, err := openMappings(paths)
	if err != nil {
		return nil, err
	}
	return &View{files: files, held: make(map[*ring.Slot][]Extent)}, nil
}

// Load implements [Backend].
func (v *View) Load(ctx context.Context, b *Block, s *ring.Slot) error {
	// What two blocks share of a page, the other block finds again in the page
	// cache.
	for _, e := range v.held[s] {
		v.files[e.File].unmapPages(e.Off, int(e.Size))
	}
	v.held[s] = v.held[s][:0]
	s.Parts = s.Parts[:0]
	for _, e := range b.Extents {
		f := &v.files[e.File]
		if e.Size > int64(len(f.data))-e.Off {
			return fmt.Errorf("read %s: %d bytes from byte %d of a mapping of %d: %w", f.f.Name(), e.Size, e.Off, len(f.data), io.ErrUnexpectedEOF)
		}
		v.held[s] = append(v.held[s], e)
		if err := f.populate(ctx, e.Off, e.Off+e.Size); err != nil {
			return err
		}
		s.Parts = append(s.Parts, f.data[e.Off:][:e.Size:e.Size])
	}
	return nil
}

// populate brings the bytes from off to end into the mapping, in pieces of
// maxRead between which it looks at ctx.
//
// It does not announce the pieces to come (MADV_WILLNEED): the kernel reads
// ahead by itself, and what is announced it reads into small folios, which took
// twice as long.
func (f *mapping) populate(ctx context.Context, off, end int64) error {
	var err error
	at := off / pageSize * pageSize
	for at < end {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err = makePresent(f.data[at:min(end, at+maxRead)]); err != nil {
			break
		}
		at += maxRead
	}
	// The rest of the last page of a file that became shorter reads as zeros
	// and does not fault, so the size decides.
	fi, statErr := f.f.Stat()
	if statErr != nil {
		return statErr // it names the file
	}
	if fi.Size() < end {
		return fmt.Errorf("read %s: bytes %d to %d of a file that now has %d: %w", f.f.Name(), off, end, fi.Size(), io.ErrUnexpectedEOF)
	}
	if err != nil {
		return fmt.Errorf("read %s: a page of bytes %d to %d: %w", f.f.Name(), at, min(end, at+maxRead), err)
	}
	return nil
}

// touch makes the pages of p present by reading a byte of each. A page that
// cannot be read is an error.
func touch(p []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer lost(&err)
	defer ring.CatchFault(&err)
	var sum byte
	for i := 0; i < len(p); i += Align { // no page is smaller
		sum |= p[i]
	}
	runtime.KeepAlive(sum) // or the reads are optimized away
	return nil
}

// Close implements [Backend].
func (v *View) Close() error {
	clear(v.held)
	err := closeMappings(v.files)
	v.files = nil
	return err
}
