// Package gguf reads and writes GGUF, the container that language models come
// in: key-value metadata, a table of tensors, and their data
// (specification: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
//
// [Open] reads the metadata and the table, of all shards where a model is
// split, and leaves the data alone: a [Tensor] says where in which file its
// bytes lie, and whoever wants them reads them. [Writer] makes files, for
// tests and synthetic models.
//
// A file is not trusted. Every count, length, product of dimensions and offset
// in it is checked against the bytes that are there before memory is taken for
// it, so that what a file can make the reader allocate is a small multiple of
// what the file holds, and never more than the limits below allow.
package gguf

import "errors"

var (
	// ErrFormat reports a file that breaks the specification: truncated,
	// overlapping, misaligned, overflowing, or of the wrong kind.
	ErrFormat = errors.New("gguf: malformed file")
	// ErrShard reports a split model of which a file is missing.
	ErrShard = errors.New("gguf: a shard is missing")
	// ErrUnsupported reports a file that may be well formed but that this
	// package does not read: another version, an unknown tensor type, or more
	// of something than the limits allow.
	ErrUnsupported = errors.New("gguf: unsupported")
)

// What the reader takes at most; more is an [ErrUnsupported]. All are several
// times what the largest published models need.
const (
	MaxKeys        = 1 << 16   // metadata pairs in a file
	MaxTensors     = 1 << 20   // tensors in a model, all shards together
	MaxArrayLen    = 1 << 24   // elements of a metadata array
	MaxArrayDepth  = 4         // arrays inside each other, the innermost included
	MaxNameBytes   = 1<<16 - 1 // length of a key or a tensor name
	MaxStringBytes = 16 << 20  // length of a metadata string
	MaxAlignment   = 1 << 20   // general.alignment
	// MaxHeaderBytes bounds all that comes before the tensor data, so that a
	// sparse file cannot claim terabytes of metadata.
	MaxHeaderBytes = 256 << 20
)

const defaultAlignment = 32 // where general.alignment is absent

// Keys that the container itself gives a meaning to.
const (
	keyAlignment    = "general.alignment"
	keySplitNo      = "split.no"
	keySplitCount   = "split.count"
	keySplitTensors = "split.tensors.count"
)
