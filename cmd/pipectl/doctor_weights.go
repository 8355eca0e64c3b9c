package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/model/gguf"
)

// weightsPiece is about how many bytes are checked at a time.
const weightsPiece = 1 << 20

// A weightsCheck reads tensors and looks for weights that are no numbers.
type weightsCheck struct {
	files []ioactor.File
	done  func(bytes int64) // is told how much has been checked

	rows    atomic.Int64 // that hold one
	mu      sync.Mutex
	checked int64
	first   error // of the first of them, in the order of the file
	at      int64
}

// checkWeights reads all of f, and expands every row.
func (d *doctorCommand) checkWeights(ctx context.Context, f *gguf.File) {
	files, err := ioactor.OpenFiles(f.Paths)
	if err != nil {
		d.fail("weights", err, openHints)
		return
	}
	defer func() { _ = ioactor.CloseFiles(files) }() // they were only read
	var total int64
	for i := range f.Tensors {
		total += f.Tensors[i].Size
	}
	show := d.shown.phase(phaseWeights, "bytes")
	w := &weightsCheck{files: files, done: func(bytes int64) { show(bytes, total) }}
	err = w.run(ctx, f)
	d.shown.end() // what is found comes behind it
	const again = "the file is damaged: get it again and compare its checksum"
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, dequant.ErrUnsupported):
		d.fail("weights", err, openHints)
	case err != nil:
		d.add("weights", statusFail, again, "%v", err)
	case w.first != nil:
		d.add("weights", statusFail, again, "%d rows hold what is no number, the first: %v", w.rows.Load(), w.first)
	default:
		d.add("weights", statusOK, "", "%s read, all are numbers", size(total))
	}
}

// run checks all tensors, pieces of them at once on all processors. The error is
// that of a read, or of a type that is not known.
func (w *weightsCheck) run(ctx context.Context, f *gguf.File) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if integers(t.Type) {
			continue
		}
		rows := max(1, weightsPiece/t.Type.RowBytes(t.Dims[0]))
		for first := 0; first < t.Rows() && ctx.Err() == nil; first += rows {
			g.Go(func() error { return w.piece(ctx, t, first, min(rows, t.Rows()-first)) })
		}
	}
	return g.Wait()
}

// integers reports whether t holds numbers that cannot be damaged into none.
func integers(t gguf.Type) bool {
	switch t {
	case gguf.I8, gguf.I16, gguf.I32, gguf.I64:
		return true
	}
	return false
}

// piece checks n rows of t from first on.
func (w *weightsCheck) piece(ctx context.Context, t *gguf.Tensor, first, n int) error {
	size := t.Type.RowBytes(t.Dims[0])
	raw, row := make([]byte, n*size), make([]float32, t.Dims[0])
	off := t.Offset + int64(first)*int64(size)
	if err := ioactor.ReadFull(ctx, w.files[t.File], raw, off); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	for i := range n {
		if err := dequant.Float32(t.Type, row, raw[i*size:][:size]); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		for c, v := range row {
			if v-v == 0 { // a number, and not infinite
				continue
			}
			w.found(off+int64(i*size), fmt.Errorf("tensor %q: row %d, column %d is %v (in the row from byte %d)", t.Name, first+i, c, v, off+int64(i*size)))
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checked += int64(len(raw))
	w.done(w.checked)
	return nil
}

func (w *weightsCheck) found(at int64, err error) {
	w.rows.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == nil || at < w.at {
		w.first, w.at = err, at
	}
}
