package compute

import (
	"math"
	"time"

	"github.com/layerpipe/layerpipe/compute/kernel"
	"github.com/layerpipe/layerpipe/compute/team"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/ring"
)

const (
	rateColumns = 4096     // of the matrix: a multiple of every block
	rateBytes   = 64 << 20 // of the matrix: more than most caches hold
	rateTime    = 15 * time.Millisecond
)

// Rate measures how many bytes of weights of type t so many threads multiply with
// one column in a second, with the weights in memory as they are streamed. It
// takes a tenth of a second or two, most of it for new memory, and at most the
// memory given, which it gives back. It is 0 if t has no kernel or there is no
// room.
func Rate(t gguf.Type, threads int, memory int64) float64 {
	if !kernel.Supported(t) {
		return 0
	}
	row := t.RowBytes(rateColumns)
	rows := int(min(memory, rateBytes)) / row / 8 * 8
	if rows <= 0 {
		return 0
	}
	m, err := ring.Alloc(int64(rows * row))
	if err != nil {
		return 0
	}
	defer m.Free()
	w := kernel.Matrix{Type: t, Rows: rows, Cols: rateColumns, Data: m.Bytes()}
	w.Data[0] = 0x3c // all bytes are that: ordinary numbers, whatever the type
	for n := 1; n < len(w.Data); n *= 2 {
		copy(w.Data[n:], w.Data[:n])
	}
	x, dst := make([]float32, rateColumns), make([]float32, rows)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	var acts kernel.Acts
	acts.Reset(t, 1, rateColumns)
	acts.Quantize(x, 0, 1)
	workers := team.New(threads)
	defer workers.Close()
	mul := func(_, lo, hi int) { kernel.Mul(dst, rows, &w, &acts, lo, hi) }
	best, start := time.Duration(math.MaxInt64), time.Now()
	for turn := 0; turn == 0 || time.Since(start) < rateTime; turn++ {
		began := time.Now()
		workers.Run(rows, max(8, chunkBytes/row/8*8), mul)
		best = min(best, max(1, time.Since(began)))
	}
	return float64(len(w.Data)) / best.Seconds()
}
