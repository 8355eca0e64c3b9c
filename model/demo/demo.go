// Package demo carries a small story-telling model inside the program, so that
// everything can be tried without a download. See README.md for its origin.
package demo

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Prompt is a beginning that the model knows how to continue.
const Prompt = "Once upon a time"

//go:embed demo.gguf
var model []byte

// WriteTemp writes the model, a GGUF file of 3 MB, to a temporary file, and
// returns a path under which this process and those that it starts can open it.
// The caller calls remove, once, when nothing has the file open any more. On
// Linux the file has no name, so that nothing is left even of a process that is
// killed, and it is in memory if the directory for temporary files does not take
// it.
func WriteTemp() (path string, remove func() error, err error) {
	path, remove, err = writeUnnamed()
	if err == nil || errors.Is(err, syscall.EMFILE) {
		return path, remove, err
	}
	f, err := os.CreateTemp("", "layerpipe-demo-*.gguf")
	if err != nil {
		return "", nil, fmt.Errorf("demo model: %w", err)
	}
	remove = func() error { return os.Remove(f.Name()) }
	_, err = f.Write(model)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", nil, fmt.Errorf("demo model: %w", errors.Join(err, remove()))
	}
	return f.Name(), remove, nil
}
