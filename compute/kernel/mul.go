package kernel

import (
	"encoding/binary"
	"math"
)

// Mul sets dst[c*ldd+r] to the product of row r of w and column c of a, for r
// in [r0, r1) and every column. r0 must be a multiple of eight. Calls may run
// at once on disjoint ranges of rows.
func Mul(dst []float32, ldd int, w *Matrix, a *Acts, r0, r1 int) {
	size := w.Type.RowBytes(w.Cols)
	for c := range a.n {
		x := a.f32[c*a.k : (c+1)*a.k]
		for r := r0; r < r1; r++ {
			dst[c*ldd+r] = dotF32(w.Data[r*size:(r+1)*size], x)
		}
	}
}

func dotF32(w []byte, x []float32) float32 {
	var s [8]float32
	for i, v := range x {
		s[i%8] += float32(math.Float32frombits(binary.LittleEndian.Uint32(w[4*i:])) * v)
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}
