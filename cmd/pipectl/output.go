package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// checkWritable finds out before hours of work what would keep [writeFile] from
// path, and refuses to replace a file of the model, which is a [usageError].
func checkWritable(path string, model modelFlag) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("write %s: a directory", path)
	case err == nil && !info.Mode().IsRegular():
		return nil // it is written to directly, and opening it may wait
	case err == nil && model.has(info):
		return usageError{hintedError{fmt.Errorf("write %s: a file of the model, which is to be read", path), "name another file"}}
	}
	f, err := createTemp(target(path))
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// has reports whether file is one of the model's.
func (m modelFlag) has(file os.FileInfo) bool {
	if m == "" {
		return false
	}
	paths := []string{string(m)}
	if f, err := gguf.Open(string(m)); err == nil { // else it says why where the model is opened
		paths = f.Paths
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, file) {
			return true
		}
	}
	return false
}

// writeFile gives path what fill writes, or leaves it as it was if fill fails.
// A path that exists and is no regular file, such as a pipe, is written to
// directly.
func writeFile(ctx context.Context, path string, fill func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := openSpecial(ctx, path)
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		return errors.Join(fill(f), f.Close())
	}
	path = target(path)
	f, err := createTemp(path)
	if err != nil {
		return err
	}
	return complete(f, path, func(f *os.File) error { return fill(f) })
}

// complete gives path what fill writes to f, or removes f if fill fails. It closes
// f.
func complete(f *os.File, path string, fill func(*os.File) error) error {
	err := errors.Join(fill(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// target is the file that is replaced for path: not a link to it.
func target(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// createTemp creates the file that becomes path when it is whole.
func createTemp(path string) (*os.File, error) {
	var f *os.File
	err := fs.ErrExist
	for try := 0; errors.Is(err, fs.ErrExist) && try < 10; try++ { // a killed process may have left one
		f, err = os.OpenFile(fmt.Sprintf("%s.%08x.tmp", path, rand.Uint32()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return f, nil
}

// openSpecial opens a device or a pipe. It waits for who reads the pipe until ctx
// ends; if ctx has ended somebody must be there.
func openSpecial(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) { // nobody reads it
		return open(ctx, path, os.O_WRONLY)
	}
	return f, err
}

// open opens a file that is there, which may be a pipe with nobody at its other
// end: it waits until ctx ends.
func open(ctx context.Context, path string, flag int) (*os.File, error) {
	var f *os.File
	var err error
	if left := unlessEnded(ctx, func() {
		if f, err = os.OpenFile(path, flag, 0); err == nil && ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), f.Close()) // whoever wanted it is gone
		}
	}); left != nil {
		return nil, left
	}
	return f, err
}
