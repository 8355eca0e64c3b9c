package kernel

import "fmt"

// Mul sets dst[c*ldd+r] to the product of row r of w and column c of a, for r
// in [r0, r1) and every column. r0 must be a multiple of eight, and r1 too
// unless it is w.Rows. Calls may run at once on disjoint ranges of rows.
//
// The product is defined to the bit, see the package comment. Mul panics if
// the sizes do not agree or a was not made for w's type.
func Mul(dst []float32, ldd int, w *Matrix, a *Acts, r0, r1 int) {
	check(dst, ldd, w, a, r0, r1)
	if k := &fast[w.Type]; k.mul[0] != nil {
		mulPanels(dst, ldd, w, a, k, r0, r1)
		return
	}
	if k := &fastFloat[w.Type]; k.pack != nil && w.Cols%8 == 0 && w.Cols > 0 {
		mulFloats(dst, ldd, w, a, k, r0, r1)
		return
	}
	mulGeneric(dst, ldd, w, a, r0, r1)
}

func check(dst []float32, ldd int, w *Matrix, a *Acts, r0, r1 int) {
	switch {
	case a.form != familyOf(w.Type).form || a.k != w.Cols:
		panic(fmt.Sprintf("kernel: %v weights of %d columns meet other activations (%d values)", w.Type, w.Cols, a.k))
	case w.Layout == Panels && familyOf(w.Type).panel == nil:
		panic(fmt.Sprintf("kernel: %v weights have no panels", w.Type))
	case r0 < 0 || r0 > r1 || r1 > w.Rows || r0%8 != 0 || r1%8 != 0 && r1 != w.Rows:
		panic(fmt.Sprintf("kernel: rows [%d, %d) of %d", r0, r1, w.Rows))
	case len(w.Data) < w.bytes():
		panic(fmt.Sprintf("kernel: %d bytes for %d rows of %d %v weights", len(w.Data), w.Rows, w.Cols, w.Type))
	case a.n > 0 && r1 > r0 && (len(dst) < (a.n-1)*ldd+r1 || a.n > 1 && ldd < r1):
		panic(fmt.Sprintf("kernel: destination of %d values with columns %d apart for %d rows of %d columns", len(dst), ldd, r1, a.n))
	}
}
