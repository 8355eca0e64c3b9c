// Package demo carries a small story-telling model inside the program, so that
// everything can be tried without a download. See README.md for its origin.
package demo

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Prompt is a beginning that the model knows how to continue.
const Prompt = "Once upon a time"

//go:embed demo.gguf
var model []byte

// WriteTemp writes the model, a GGUF file of 3 MB, to a temporary directory of
// its own. The caller calls remove, once, when nothing has the file open any
// more; it deletes file and directory.
func WriteTemp() (path string, remove func() error, err error) {
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
