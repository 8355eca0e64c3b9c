// Package demo carries a small story-telling model inside the program, so that
// everything can be tried without a download. See README.md for its origin.
package demo

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Prompt is a beginning that the model knows how to continue.
const Prompt = "Once upon a time"

//go:embed demo.gguf
var model []byte

// WriteTemp writes the model, a GGUF file of 3 MB, to a temporary file, and
// returns a path under which this process and those that it starts can open it.
// The caller calls remove, once, when nothing has the file open any more. On
// Linux the file has no name, so that nothing is left even of a process that is
// killed.
func WriteTemp() (path string, remove func() error, err error) {
	if runtime.GOOS == "linux" {
		if path, remove, err = writeUnnamed(); err == nil {
			return path, remove, nil
		}
	}
	dir, err := os.MkdirTemp("", "layerpipe-demo-")
	if err != nil {
		return "", nil, fmt.Errorf("demo model: %w", err)
	}
	remove = func() error { return os.RemoveAll(dir) }
	path = filepath.Join(dir, "demo.gguf")
	if err := os.WriteFile(path, model, 0o600); err != nil {
		return "", nil, errors.Join(fmt.Errorf("demo model: %w", err), remove())
	}
	return path, remove, nil
}

// writeUnnamed writes the model to a file that exists for as long as it is open,
// which remove ends.
func writeUnnamed() (path string, remove func() error, err error) {
	f, err := os.CreateTemp("", "layerpipe-demo-")
	if err != nil {
		return "", nil, err
	}
	err = os.Remove(f.Name())
	if err == nil {
		_, err = f.Write(model)
	}
	path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())
	if err == nil {
		var again *os.File
		if again, err = os.Open(path); err == nil { // else there is no /proc, or no such files
			err = again.Close()
		}
	}
	if err != nil {
		return "", nil, errors.Join(err, f.Close())
	}
	return path, f.Close, nil
}
