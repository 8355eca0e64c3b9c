package ioactor

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// Touch makes pages present where the kernel does not do it in a call.
var Touch = touch

// StorageReads is what tells a device's bytes from those of a cache.
var StorageReads = storageReads

// DirectFaults is what happens below a [Direct], for tests.
type DirectFaults struct {
	AtOpen   error // of an open for direct reads
	Align    int64 // what the file system says it needs, unless 0
	AtRead   error // of a direct read
	Uncached error // of a read that leaves nothing in the page cache
	// Pread, if not nil, is called in place of reads, with the read.
	Pread func(p []byte, off int64, read func(p []byte, off int64) (int, error)) (int, error)
}

// NoDirect is [DirectFaults.Align] of a file system without direct reads.
const NoDirect = -1

// OpenFaultyDirect is OpenDirect on a file system with faults.
func OpenFaultyDirect(paths []string, o DirectOptions, f DirectFaults) (*Direct, error) {
	return openDirect(paths, o, f.system())
}

// ProbeFaulty is Probe on a file system with faults.
func ProbeFaulty(ctx context.Context, path string, o ProbeOptions, f DirectFaults) (ProbeResult, error) {
	return probe(ctx, path, o, f.system())
}

func (f DirectFaults) system() directSystem {
	sys := system
	if f.AtOpen != nil {
		sys.open = func(path string) (*os.File, error) { return nil, &os.PathError{Op: "open", Path: path, Err: f.AtOpen} }
	}
	if f.Align != 0 {
		sys.align = func(int) (int64, bool) { return max(0, f.Align), true }
	}
	if f.Uncached != nil {
		sys.uncached = func(int, []byte, int64) (int, error) { return 0, f.Uncached }
	}
	sys.pread = func(fd int, p []byte, off int64) (int, error) {
		if f.AtRead != nil {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			if err != nil {
				return 0, err
			}
			if flags&unix.O_DIRECT != 0 {
				return 0, f.AtRead
			}
		}
		if f.Pread != nil {
			return f.Pread(p, off, func(p []byte, off int64) (int, error) { return unix.Pread(fd, p, off) })
		}
		return unix.Pread(fd, p, off)
	}
	return sys
}

// SlopeOf is the slope of a line through the sums of bytes at times.
func SlopeOf(seconds, bytes []float64) float64 {
	var l line
	for i := range seconds {
		l.add(seconds[i], bytes[i])
	}
	return l.slope()
}

// Prefer is the choice among speeds.
var Prefer = prefer
