// Package gguf reads and writes GGUF, the container that language models come
// in (specification: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
package gguf

import "errors"

var (
	// ErrFormat reports a file that breaks the specification: truncated,
	// overlapping, misaligned, overflowing, or of the wrong kind.
	ErrFormat = errors.New("gguf: malformed file")
	// ErrUnsupported reports a file that is well formed but that this package
	// does not read: another version, or an unknown tensor type.
	ErrUnsupported = errors.New("gguf: unsupported")
)
