package readertest

import (
	"fmt"
	"testing"

	"github.com/layerpipe/layerpipe/ioactor"
)

// Bench measures the backends that open returns over a file that is in the page
// cache, unless the backend goes around it: what a load costs beside the
// storage. It decides between backends for models that nearly fit, and shows
// what extents cost that are not next to each other.
func Bench(b *testing.B, open Opener) {
	const size = 64 << 20
	for _, bytes := range []int64{1 << 20, 16 << 20} {
		for _, extents := range []int64{1, 8} {
			b.Run(fmt.Sprintf("%d MiB in %d extents", bytes>>20, extents), func(b *testing.B) {
				// Tensors are aligned to 32 bytes, not to pages.
				var blocks []ioactor.Block
				for off := int64(32); off+bytes <= size; off += bytes {
					var block ioactor.Block
					gap := int64(64)
					for e := range extents {
						block.Extents = append(block.Extents, ioactor.Extent{Off: off + e*bytes/extents, Size: bytes/extents - gap})
					}
					blocks = append(blocks, block)
				}
				bench := setUp(b, open, ioactor.LoadBytes(blocks), size)
				for i := range blocks {
					bench.load(b, &blocks[i])
				}
				b.SetBytes(blocks[0].Bytes())
				n := 0
				for b.Loop() {
					if err := bench.backend.Load(b.Context(), &blocks[n%len(blocks)], bench.slot); err != nil {
						b.Fatal(err)
					}
					n++
				}
				b.ReportMetric(float64(blocks[0].Bytes())*float64(n)/b.Elapsed().Seconds()/1e9, "GB/s")
			})
		}
	}
}
