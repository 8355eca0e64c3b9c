package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/tokenizer"
	"github.com/layerpipe/layerpipe/pipeline"
)

// A usageError is a command line that makes no sense.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// A hintedError says what to do about it.
type hintedError struct {
	error
	hint string
}

func (e hintedError) Unwrap() error { return e.error }

type hint struct {
	of   error
	text string
}

// openHints are for a model that does not open.
var openHints = []hint{
	{gguf.ErrShard, "all files of a split model belong in one directory, under the names that they came with"},
	{fs.ErrNotExist, "check the path; without one the model that is built in is used"},
	{fs.ErrPermission, "the file must be readable for you"},
	{gguf.ErrFormat, "the file is damaged, incomplete or no GGUF model; get it again and compare its checksum"},
	{gguf.ErrUnsupported, "convert the model anew with a current converter"},
	{model.ErrUnsupported, "choose a model of a supported architecture, in a current conversion"},
	{model.ErrModel, "convert the model anew, or get it from another source"},
	{dequant.ErrUnsupported, "choose another quantization of the model"},
	{tokenizer.ErrUnsupported, "pipectl logits works on token ids and needs no tokenizer"},
	{pipeline.ErrMemory, "raise --memory or the limit that is named, or lower what it has to hold: --ctx, --buffers; --unit tensor needs the smallest slots"},
	{syscall.ENOMEM, "lower --memory"},
}

// answerHints are for an answer of a chat that fails.
var answerHints = []hint{{compute.ErrFull, "/reset forgets the conversation; or shorten the message, or raise --ctx"}}

// passHints are for a pass that fails.
var passHints = []hint{
	{compute.ErrFull, "raise --ctx, or shorten the prompt"},
	{compute.ErrNumeric, "the weights are damaged, or values overflow: compare the file's checksum, try --kv f32"},
	{pipeline.ErrEmptyPrompt, "give a text to continue with -p"},
	{syscall.ENOMEM, "lower --ctx"},
}

// withHint adds the first of hints that is about err, if it has none yet.
func withHint(err error, hints []hint) error {
	if h := (hintedError{}); errors.As(err, &h) {
		return err
	}
	for _, h := range hints {
		if errors.Is(err, h.of) {
			return hintedError{err, h.text}
		}
	}
	return err
}
