package kernel

import "unsafe"

// floatKernels are the vector kernels of a type of float weights.
type floatKernels struct {
	// mul[n-1] sets four rows of n columns, ldd apart in dst, to the products
	// of rows of 8*n8 weights, stride bytes apart, with columns ldx apart in
	// x. It brings as many bytes as it reads into the cache from fetch, which
	// may be no memory at all.
	mul [floatGroup]floatFunc
	// pack writes 8*n8 weights of eight rows as float32: eight of row 0, eight
	// of row 1, and so on, then the next eight of each.
	pack func(n8 int, dst *float32, rows *byte, stride int)
}

type floatFunc = func(n8 int, rows *byte, stride int, fetch uintptr, x *float32, ldx int, dst *float32, ldd int)

// packedFunc adds to the lanes of some columns the products of 8*n8 packed
// weights of eight rows with columns ldx apart in x. A column has rowLanes lanes.
type packedFunc = func(n8 int, w, x *float32, ldx int, lanes *float32)

const (
	floatGroup   = 3     // columns, at most, of an AVX2 kernel
	packedGroup  = 6     // columns of packedWide
	rowLanes     = 8 * 8 // eight rows of eight lanes
	packedFloats = 8 * 512
)

// These are set once, at start, as fast is.
var (
	fastFloat [len(families)]floatKernels
	// packed[n-1] multiplies n columns with the four rows that begin at w.
	packed [floatGroup]packedFunc
	// packedWide, if there is one, multiplies packedGroup columns with eight.
	packedWide packedFunc
	// fold adds up the lanes of n columns and sets eight rows in dst.
	fold func(n int, lanes, dst *float32, ldd int)
)

// mulFloats is [Mul] for float types on vector kernels, for rows of a positive
// multiple of eight weights.
func mulFloats(dst []float32, ldd int, w *Matrix, a *Acts, k *floatKernels, r0, r1 int) {
	ws := workspaces.Get().(*workspace)
	defer workspaces.Put(ws)
	r := r0
	if a.n > floatGroup { // else packing costs more than it gains
		for c0 := 0; c0 < a.n; c0 += blockColumns {
			for r = r0; r+8 <= r1; r += 8 {
				mulPacked(dst[r:], ldd, w, a, k, ws, r, c0, min(c0+blockColumns, a.n))
			}
		}
	}
	for ; r+4 <= r1; r += 4 {
		mulFourRows(dst[r:], ldd, w, a, k, r)
	}
	for ; r < r1; r++ {
		mulLastRow(dst[r:], ldd, w, a, k, ws, r)
	}
}

// mulPacked multiplies rows r to r+7 with columns [c0, c1), a stretch of packed
// weights at a time.
func mulPacked(dst []float32, ldd int, w *Matrix, a *Acts, k *floatKernels, ws *workspace, r, c0, c1 int) {
	_, bytes := w.blocks()
	size := w.Cols * bytes
	rows := w.Data[r*size:][:8*size]
	lanes := ws.lanes[:(c1-c0)*rowLanes]
	clear(lanes)
	for i := 0; i < a.k; i += packedFloats / 8 {
		n8 := min(packedFloats/8, a.k-i) / 8
		k.pack(n8, &ws.floats[0], &rows[i*bytes], size)
		c := c0
		if packedWide != nil {
			for ; c+packedGroup <= c1; c += packedGroup {
				mulLanes(packedWide, n8, ws.floats[:], a, c, i, lanes[(c-c0)*rowLanes:])
			}
		}
		for ; c < c1; c += floatGroup {
			f := packed[min(floatGroup, c1-c)-1]
			for h := range 2 {
				mulLanes(f, n8, ws.floats[32*h:], a, c, i, lanes[(c-c0)*rowLanes+32*h:])
			}
		}
	}
	fold(c1-c0, &lanes[0], &dst[c0*ldd], ldd)
}

// mulLanes multiplies packed weights with values from i on of the columns from
// c on. It is not inlined for the reason given at mulGroup.
//
//go:noinline
func mulLanes(f packedFunc, n8 int, w []float32, a *Acts, c, i int, lanes []float32) {
	f(n8, &w[0], &a.f32[c*a.k+i], a.k, &lanes[0])
}

// mulFourRows multiplies rows r to r+3. It is not inlined for the reason given
// at mulGroup.
//
//go:noinline
func mulFourRows(dst []float32, ldd int, w *Matrix, a *Acts, k *floatKernels, r int) {
	n, size := w.blocks()
	size *= n
	rows := w.Data[r*size:][:4*size]
	next := uintptr(unsafe.Pointer(&rows[0])) + uintptr(len(rows))
	for c := 0; c < a.n; c += floatGroup {
		width := min(floatGroup, a.n-c)
		k.mul[width-1](a.k/8, &rows[0], size, next, &a.f32[c*a.k], a.k, &dst[c*ldd], ldd)
	}
}

// mulLastRow multiplies row r, which stands in for the three after it too.
//
//go:noinline
func mulLastRow(dst []float32, ldd int, w *Matrix, a *Acts, k *floatKernels, ws *workspace, r int) {
	n, size := w.blocks()
	size *= n
	row := w.Data[r*size:][:size]
	for c := 0; c < a.n; c += floatGroup {
		width := min(floatGroup, a.n-c)
		k.mul[width-1](a.k/8, &row[0], 0, 0, &a.f32[c*a.k], a.k, &ws.out[0], 8)
		for i := range width {
			dst[(c+i)*ldd] = ws.out[8*i]
		}
	}
}
