package ioactor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/layerpipe/layerpipe/ring"
)

// DirectOptions says how a [Direct] reads. [Probe] finds what suits a device.
type DirectOptions struct {
	// Chunk is the size of one read in bytes, rounded up to whole pages; a load
	// cannot be cancelled within one. What is larger than the device's largest
	// request (mostly 1 to 4 MiB) the kernel splits into requests that run at
	// once. Zero means 16 MiB.
	Chunk int64
}

const (
	defaultChunk = 16 << 20
	maxChunk     = 1 << 30 // the kernel reads no more at once
)

func (o DirectOptions) withDefaults() (DirectOptions, error) {
	if o.Chunk == 0 {
		o.Chunk = defaultChunk
	}
	if o.Chunk < 0 || o.Chunk > maxChunk {
		return o, fmt.Errorf("direct reads: chunk of %d bytes: must be 1 to %d", o.Chunk, maxChunk)
	}
	o.Chunk = roundUp(o.Chunk)
	return o, nil
}

// roundUp returns n rounded up to whole pages.
func roundUp(n int64) int64 { return (n + Align - 1) / Align * Align }

// Direct loads blocks past the page cache, straight from the device into the
// slot: the cache would only hold a second copy of what a cyclic scan never
// finds in it again. Slots in huge pages, which [ring.Alloc] asks for, let the
// device fill a large request at once.
//
// Where the system or the file system has no direct reads, Direct reads through
// the page cache and leaves nothing there; [Direct.Note] says so.
type Direct struct {
	files []*directFile
	opts  DirectOptions
	offs  []int64
	note  atomic.Pointer[string]
}

// OpenDirect opens the files at paths. That a file cannot be read directly is
// no error.
func OpenDirect(paths []string, o DirectOptions) (*Direct, error) {
	return openDirect(paths, o, system)
}

func openDirect(paths []string, o DirectOptions, sys directSystem) (*Direct, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Direct{opts: o}
	for _, p := range paths {
		f, err := openDirectFile(p, sys, d.refused)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		d.files = append(d.files, f)
	}
	return d, nil
}

// refused keeps the first reason why a file is not read directly.
func (d *Direct) refused(reason string) { d.note.CompareAndSwap(nil, &reason) }

// Note says that files are not read directly, and why: one sentence for the
// user, "" if all is as asked. Some file systems refuse at the first read, so
// it is final only after the first Load. It may be called from any goroutine.
func (d *Direct) Note() string {
	if s := d.note.Load(); s != nil {
		return *s
	}
	return ""
}

// Load implements [Backend]. It reads whole pages around each extent.
//
//	file    |....page....|....page....|....page....|....page....|
//	extent          |----------------------------------|
//	reads   |<------- chunk --------->|<------- chunk --------->|
//	need    |------------------------>|--------------->|
func (d *Direct) Load(ctx context.Context, b *Block, s *ring.Slot) error {
	d.offs, _ = b.Place(d.offs)
	s.Parts = s.Parts[:0]
	for i, e := range b.Extents {
		head := e.Off % Align // of its first page, before the extent
		area := s.Load()[d.offs[i]-head:]
		for done, left := int64(0), head+e.Size; left > 0; {
			n := min(d.opts.Chunk, roundUp(left))
			if err := d.files[e.File].read(ctx, area[done:][:n], e.Off-head+done, int(min(n, left))); err != nil {
				return err
			}
			done, left = done+n, left-n
		}
		s.Parts = append(s.Parts, s.Load()[d.offs[i]:][:e.Size])
	}
	return nil
}

// Close implements [Backend].
func (d *Direct) Close() error {
	var errs []error
	for _, f := range d.files {
		errs = append(errs, f.close())
	}
	d.files = nil
	return errors.Join(errs...)
}
