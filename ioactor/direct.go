package ioactor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/layerpipe/layerpipe/ring"
)

// DirectOptions says how a [Direct] reads. [Probe] finds what suits a device.
type DirectOptions struct {
	// Chunk is the size of one read in bytes, rounded up to whole pages; a load
	// cannot be cancelled within one. What is larger than the device's largest
	// request (mostly 1 to 4 MiB) the kernel splits into requests that run at
	// once. Zero means 16 MiB.
	Chunk int64
	// InFlight is how many reads run at once, each in a goroutine of its own.
	// Zero means 1, which needs no goroutine and allocates nothing.
	InFlight int
}

const (
	defaultChunk = 16 << 20
	maxChunk     = 1 << 30 // the kernel reads no more at once
	maxInFlight  = 256     // more than any device's queue gains from
)

func (o DirectOptions) withDefaults() (DirectOptions, error) {
	if o.Chunk == 0 {
		o.Chunk = defaultChunk
	}
	if o.InFlight == 0 {
		o.InFlight = 1
	}
	if o.Chunk < 0 || o.Chunk > maxChunk {
		return o, fmt.Errorf("direct reads: chunk of %d bytes: must be 1 to %d", o.Chunk, maxChunk)
	}
	if o.InFlight < 0 || o.InFlight > maxInFlight {
		return o, fmt.Errorf("direct reads: %d in flight: must be 1 to %d", o.InFlight, maxInFlight)
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
	files  []*directFile
	opts   DirectOptions
	offs   []int64
	chunks chunks
	note   atomic.Pointer[string]
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

// Load implements [Backend].
func (d *Direct) Load(ctx context.Context, b *Block, s *ring.Slot) error {
	d.offs, _ = b.Place(d.offs)
	d.chunks.reset(b, d.offs, d.opts.Chunk)
	if err := d.readAll(ctx, s.Load()); err != nil {
		return err
	}
	s.Parts = s.Parts[:0]
	for i, e := range b.Extents {
		s.Parts = append(s.Parts, s.Load()[d.offs[i]:][:e.Size])
	}
	return nil
}

// readAll reads the chunks, and returns when no read is under way any more.
func (d *Direct) readAll(ctx context.Context, area []byte) error {
	if d.opts.InFlight == 1 {
		return d.readSome(ctx, area)
	}
	g, all := errgroup.WithContext(ctx) // the first error stops the others
	for range d.opts.InFlight {
		g.Go(func() error { return d.readSome(all, area) })
	}
	return g.Wait()
}

// readSome reads chunks until none is left.
func (d *Direct) readSome(ctx context.Context, area []byte) error {
	for {
		c, ok := d.chunks.next()
		if !ok {
			return nil
		}
		if err := d.files[c.file].read(ctx, area[c.at:][:c.size], c.off, int(c.need)); err != nil {
			return err
		}
	}
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

// A chunk is what is read at once: whole pages of a file.
type chunk struct {
	file     int
	off      int64 // in the file
	at, size int64 // in the load area
	need     int64 // bytes that the extent has of it; the file may end behind them
}

// chunks cuts the whole pages around the extents of a block into chunks, and
// hands them out to whoever comes.
//
//	file    |....page....|....page....|....page....|....page....|
//	extent          |----------------------------------|
//	chunks  |<------- chunk --------->|<------- chunk --------->|
//	need    |------------------------>|--------------->|
type chunks struct {
	mu     sync.Mutex
	block  *Block
	offs   []int64
	most   int64 // bytes of a chunk
	extent int   // the one that the next chunk is of
	done   int64 // bytes of it that are handed out
}

func (c *chunks) reset(b *Block, offs []int64, most int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.block, c.offs, c.most, c.extent, c.done = b, offs, most, 0, 0
}

func (c *chunks) next() (chunk, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.extent == len(c.block.Extents) {
		return chunk{}, false
	}
	e := &c.block.Extents[c.extent]
	head := e.Off % Align // of its first page, before the extent
	left := head + e.Size - c.done
	n := min(c.most, roundUp(left))
	next := chunk{
		file: e.File, off: e.Off - head + c.done,
		at: c.offs[c.extent] - head + c.done, size: n, need: min(n, left),
	}
	c.done += n
	if n >= left {
		c.extent, c.done = c.extent+1, 0
	}
	return next, true
}
