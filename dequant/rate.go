package dequant

import (
	"time"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// Rate measures how many bytes of type t are expanded in a second, as an [Actor]
// does it: row by row, by one goroutine. It takes some milliseconds and 2 MiB. It
// is 0 if t is not [Supported].
func Rate(t gguf.Type) float64 {
	const (
		columns = 4096 // a multiple of every block
		rows    = 128  // more than a first-level cache holds
		enough  = 3 * time.Millisecond
	)
	if !Supported(t) {
		return 0
	}
	row := t.RowBytes(columns)
	src, dst := make([]byte, row), make([]float32, rows*columns)
	for i := range src {
		src[i] = byte(i * 37)
	}
	turn := func() time.Duration {
		began := time.Now()
		for r := range rows {
			expanders[t](dst[r*columns:][:columns], src)
		}
		return max(1, time.Since(began))
	}
	turn() // whose pages are new
	best := turn()
	for start := time.Now(); time.Since(start) < enough; {
		best = min(best, turn())
	}
	return float64(rows*row) / best.Seconds()
}
