package ring_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// With the tag slotdebug or the race detector, an alias of a slot that went
// home reads NaNs; otherwise the slot is left as it was, for speed.
func TestPoison(t *testing.T) {
	for _, size := range []int64{1, 3, 4096, 10007} {
		r := newRing(t, 1, size, 2*size)
		s := acquire(t, r)
		load, work := s.Load(), s.Work()
		for _, b := range [][]byte{load, work} {
			for i := range b {
				b[i] = byte(i)
			}
		}
		s.Free()
		for _, b := range [][]byte{load, work} {
			for i := range b {
				want := byte(i)
				if poisoned {
					want = 0xff
				}
				require.Equal(t, want, b[i])
			}
		}
		if poisoned && size >= 4 {
			x := math.Float32frombits(binary.LittleEndian.Uint32(work))
			require.True(t, x != x)
		}
		r.Close()
	}
}
