package ioactor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// A File is what a reading backend needs of a file. *os.File is one.
type File interface {
	io.ReaderAt
	io.Closer
	Name() string
}

// OpenFiles opens the files at paths for reading.
func OpenFiles(paths []string) ([]File, error) {
	files := make([]File, 0, len(paths))
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			return nil, errors.Join(err, CloseFiles(files))
		}
		files = append(files, f)
	}
	return files, nil
}

// CloseFiles closes all of files and returns what went wrong.
func CloseFiles(files []File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// maxRead bounds how long a read cannot be cancelled: a blocked system call
// does not see a context. At the speed of a slow disk it takes some 50 ms.
const maxRead = 4 << 20

// maxIdle is how many reads in a row may bring nothing before a file that
// keeps saying "again" counts as broken.
const maxIdle = 100

// ReadFull fills p from off, in reads of at most 4 MiB between which it looks
// at ctx, whose cause it returns. Interrupted and short reads are continued; an
// end of file before p is full is io.ErrUnexpectedEOF, and a file that goes on
// bringing nothing is io.ErrNoProgress. Errors name the file and the offset.
func ReadFull(ctx context.Context, f File, p []byte, off int64) error {
	end := off + int64(len(p))
	idle := 0
	for len(p) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := f.ReadAt(p[:min(len(p), maxRead)], off)
		p, off = p[n:], off+int64(n)
		if len(p) == 0 {
			return nil // io.ReaderAt may say EOF together with the last bytes
		}
		if n > 0 {
			idle = 0
		} else {
			idle++
		}
		if named, ok := errors.AsType[*fs.PathError](err); ok {
			err = named.Err // the file's name once is enough
		}
		again := err == nil || transient(err)
		switch {
		case again && idle <= maxIdle:
			continue
		case err == nil:
			err = io.ErrNoProgress
		case again:
			err = fmt.Errorf("%w: %w", io.ErrNoProgress, err)
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read %s: byte %d of a range to %d: %w", f.Name(), off, end, err)
	}
	return nil
}

func transient(err error) bool {
	return errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.EAGAIN)
}
