package ioactor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A directSystem is the calls whose answers depend on the file system. Tests
// put others in their place.
type directSystem struct {
	open  func(path string) (*os.File, error) // for direct reads
	align func(fd int) (bytes int64, known bool)
	pread func(fd int, p []byte, off int64) (int, error)
	// uncached is a read through the page cache that leaves nothing there.
	uncached func(fd int, p []byte, off int64) (int, error)
}

var system = directSystem{
	open:     func(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0) },
	align:    directAlign,
	pread:    unix.Pread,
	uncached: preadUncached,
}

// directAlign is the alignment that direct reads need, 0 where there are none.
// Kernels before 6.1 and some file systems do not tell.
func directAlign(fd int) (bytes int64, known bool) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	if err != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
		return 0, false
	}
	if st.Dio_mem_align == 0 || st.Dio_offset_align == 0 {
		return 0, true
	}
	off := st.Dio_offset_align
	if st.Dio_read_offset_align != 0 {
		off = st.Dio_read_offset_align // reads ask for less there
	}
	return int64(max(st.Dio_mem_align, off)), true
}

// preadUncached needs Linux 6.14 and a file system that takes part.
func preadUncached(fd int, p []byte, off int64) (int, error) {
	return unix.Preadv2(fd, [][]byte{p}, off, unix.RWF_DONTCACHE)
}

// A readMode is a way to read a file. Each next one works in more places.
type readMode int

const (
	direct   readMode = iota
	uncached          // RWF_DONTCACHE
	dropping          // buffered, and dropped from the page cache behind
)

type directFile struct {
	f       *os.File
	fd      int
	sys     directSystem
	mode    readMode
	refused func(reason string)
}

func openDirectFile(path string, sys directSystem, refused func(reason string)) (*directFile, error) {
	f, err := sys.open(path)
	refusal := err
	if refuses(err) {
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, err
	}
	d := &directFile{f: f, fd: int(f.Fd()), sys: sys, refused: refused}
	if refusal != nil {
		err = d.giveUp("at open")
	} else if align, known := sys.align(d.fd); known && align == 0 {
		err = d.giveUp("it has none")
	} else if known && Align%align != 0 {
		err = d.giveUp(fmt.Sprintf("it wants them aligned to %d bytes", align))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return d, nil
}

// refuses reports whether err says that a file or a flag cannot be used so.
func refuses(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
}

// giveUp makes the file one that is read through the page cache.
func (d *directFile) giveUp(how string) error {
	flags, err := unix.FcntlInt(uintptr(d.fd), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(d.fd), unix.F_SETFL, flags&^unix.O_DIRECT)
	}
	if err != nil {
		return fmt.Errorf("read %s: leave O_DIRECT: %w", d.f.Name(), err)
	}
	d.mode = uncached
	d.refused(fmt.Sprintf("direct reads: %s: its file system refuses them (%s): it is read through the page cache, which takes longer", d.f.Name(), how))
	return nil
}

// read fills the first need bytes of p, and as much of the rest as the file
// has, from off. p is whole pages, and off a multiple of their size.
func (d *directFile) read(ctx context.Context, p []byte, off int64, need int) error {
	idle := 0
	for done := 0; done < need; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// After a short read that ends within a page, the page is read again.
		from := done / Align * Align
		n, err := d.pread(p[from:], off+int64(from))
		switch {
		case err == nil && from+n > done:
			done, idle = from+n, 0
			continue
		case err == nil:
			err = io.ErrUnexpectedEOF
		case refuses(err) && d.mode == direct:
			if err = d.giveUp("at the first read"); err == nil {
				continue
			}
			return err
		case refuses(err) && d.mode == uncached:
			d.mode = dropping
			continue
		case transient(err) && idle < maxIdle:
			idle++
			continue
		case transient(err):
			err = fmt.Errorf("%w: %w", io.ErrNoProgress, err)
		}
		return fmt.Errorf("read %s: byte %d of a range to %d: %w", d.f.Name(), off+int64(done), off+int64(need), err)
	}
	return nil
}

func (d *directFile) pread(p []byte, off int64) (int, error) {
	switch d.mode {
	case direct:
		return d.sys.pread(d.fd, p, off)
	case uncached:
		return d.sys.uncached(d.fd, p, off)
	default:
		n, err := d.sys.pread(d.fd, p, off)
		_ = unix.Fadvise(d.fd, off, int64(len(p)), unix.FADV_DONTNEED) // without it the cache holds more, and nothing is wrong
		return n, err
	}
}

func (d *directFile) close() error { return d.f.Close() }
