//go:build unix

package ioactor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/layerpipe/layerpipe/ring"
)

// Mmap loads blocks by copying them from mappings of the files.
type Mmap struct {
	files []mapping
	offs  []int64
	hint  Hint
}

// pageSize is what advice about a mapping must begin at: more than [Align] on
// some machines.
var pageSize = int64(os.Getpagesize())

type mapping struct {
	f    *os.File
	data []byte
}

// OpenMmap maps the files at paths.
func OpenMmap(paths []string, hint Hint) (*Mmap, error) {
	files, err := openMappings(paths)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		hint.open(f.f)
	}
	return &Mmap{files: files, hint: hint}, nil
}

func openMappings(paths []string) ([]mapping, error) {
	var files []mapping
	for _, p := range paths {
		f, err := openMapping(p)
		if err != nil {
			return nil, errors.Join(err, closeMappings(files))
		}
		files = append(files, f)
	}
	return files, nil
}

func closeMappings(files []mapping) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, unix.Munmap(f.data), f.f.Close())
	}
	return errors.Join(errs...)
}

func openMapping(path string) (mapping, error) {
	f, err := os.Open(path)
	if err != nil {
		return mapping{}, err
	}
	fi, err := f.Stat()
	if err != nil {
		return mapping{}, errors.Join(err, f.Close())
	}
	size := fi.Size()
	if size == 0 || int64(int(size)) != size {
		return mapping{}, errors.Join(fmt.Errorf("map %s: %d bytes", path, size), f.Close())
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return mapping{}, errors.Join(fmt.Errorf("map %s: %w", path, err), f.Close())
	}
	return mapping{f, data}, nil
}

// Load implements [Backend].
func (m *Mmap) Load(ctx context.Context, b *Block, s *ring.Slot) error {
	m.offs, _ = b.Place(m.offs)
	s.Parts = s.Parts[:0]
	m.hint.before(b, func(i int) File { return m.files[i].f })
	for i, e := range b.Extents {
		p := s.Load()[m.offs[i]:][:e.Size]
		if err := m.files[e.File].read(ctx, p, e.Off); err != nil {
			return err
		}
		m.hint.after(m.files[e.File].f, e)
		s.Parts = append(s.Parts, p)
	}
	return nil
}

func (f *mapping) read(ctx context.Context, p []byte, off int64) error {
	for done := 0; done < len(p); {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(len(p)-done, maxRead)
		at := off + int64(done)
		if int64(n) > int64(len(f.data))-at {
			return fmt.Errorf("read %s: %d bytes from byte %d of a mapping of %d: %w", f.f.Name(), n, at, len(f.data), io.ErrUnexpectedEOF)
		}
		err := copyMapped(p[done:done+n], f.data[at:])
		f.unmapPages(at, n)
		if err != nil {
			return fmt.Errorf("read %s: bytes %d to %d: %w", f.f.Name(), at, at+int64(n), err)
		}
		done += n
	}
	// The rest of the last page of a file that became shorter reads as zeros
	// and does not fault, so the size decides.
	fi, err := f.f.Stat()
	if err != nil {
		return err // it names the file
	}
	if end := off + int64(len(p)); fi.Size() < end {
		return fmt.Errorf("read %s: bytes %d to %d of a file that now has %d: %w", f.f.Name(), off, end, fi.Size(), io.ErrUnexpectedEOF)
	}
	return nil
}

// unmapPages takes the pages of what has been copied out of the process again:
// they count as its memory for as long as they are mapped. They stay in the
// page cache.
func (f *mapping) unmapPages(off int64, n int) {
	start := off / pageSize * pageSize
	_ = unix.Madvise(f.data[start:off+int64(n)], unix.MADV_DONTNEED) // without it the process is larger, not wrong
}

func copyMapped(dst, src []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer lost(&err)
	defer ring.CatchFault(&err)
	copy(dst, src)
	return nil
}

// lost says what a fault means for a file.
func lost(err *error) {
	if *err != nil {
		*err = fmt.Errorf("the file became shorter, or its storage failed: %w: %w", io.ErrUnexpectedEOF, *err)
	}
}

// Close implements [Backend].
func (m *Mmap) Close() error {
	err := closeMappings(m.files)
	m.files = nil
	return err
}
