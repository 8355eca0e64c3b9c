package kernel

import "unsafe"

// A floatFunc sets four rows of some columns, ldd apart in dst, to the products
// of rows of 8*n8 values, stride bytes apart, with columns ldx apart in x. It
// fetches as many bytes as it reads at next, which need not be readable.
type floatFunc = func(n8 int, rows *byte, stride int, next uintptr, x *float32, ldx int, dst *float32, ldd int)

// floatGroup is the greatest number of columns that a float kernel takes.
const floatGroup = 3

// fastFloat holds by type the kernels for 1, 2, ... columns, as fast does.
var fastFloat [len(families)][floatGroup]floatFunc

// mulFloats is [Mul] for float types on vector kernels, for rows of a multiple
// of eight values.
func mulFloats(dst []float32, ldd int, w *Matrix, a *Acts, k *[floatGroup]floatFunc, r0, r1 int) {
	if a.k == 0 {
		mulGeneric(dst, ldd, w, a, r0, r1)
		return
	}
	r := r0
	for ; r+4 <= r1; r += 4 {
		mulFourRows(dst[r:], ldd, w, a, k, r)
	}
	for ; r < r1; r++ {
		mulLastRow(dst[r:], ldd, w, a, k, r)
	}
}

// mulFourRows multiplies rows r to r+3. It is not inlined for the reason given
// at mulPanel.
//
//go:noinline
func mulFourRows(dst []float32, ldd int, w *Matrix, a *Acts, k *[floatGroup]floatFunc, r int) {
	size := w.Type.RowBytes(w.Cols)
	rows := w.Data[r*size:][:4*size]
	next := uintptr(unsafe.Pointer(&rows[0])) + uintptr(len(rows))
	for c := 0; c < a.n; c += floatGroup {
		width := min(floatGroup, a.n-c)
		k[width-1](a.k/8, &rows[0], size, next, &a.f32[c*a.k], a.k, &dst[c*ldd], ldd)
	}
}

// mulLastRow multiplies row r with itself standing in for the rows after it.
//
//go:noinline
func mulLastRow(dst []float32, ldd int, w *Matrix, a *Acts, k *[floatGroup]floatFunc, r int) {
	size := w.Type.RowBytes(w.Cols)
	row := w.Data[r*size:][:size]
	ws := workspaces.Get().(*workspace)
	defer workspaces.Put(ws)
	for c := 0; c < a.n; c += floatGroup {
		width := min(floatGroup, a.n-c)
		k[width-1](a.k/8, &row[0], 0, 0, &a.f32[c*a.k], a.k, &ws.out[0], 8)
		for i := range width {
			dst[(c+i)*ldd] = ws.out[8*i]
		}
	}
}
