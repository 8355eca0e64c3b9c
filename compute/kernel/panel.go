package kernel

import (
	"sync"
	"unsafe"
)

// kernels are the vector kernels of a quantized type.
//
// interleave makes a panel of nb blocks in dst from eight rows that begin
// stride bytes apart in src.
//
// mul[n-1] adds to eight rows of n columns, ldd apart in dst, the products of
// nb blocks of a panel and the records of those n columns. If n is below group
// it also brings as many bytes into the cache from fetch, which may be no
// memory at all; a product with more columns does not wait for memory.
type kernels struct {
	interleave func(nb int, dst, src *byte, stride int)
	mul        [group]mulFunc
}

type mulFunc = func(nb int, panel *byte, fetch uintptr, recs *byte, dst *float32, ldd int)

// fast holds by type the kernels that this machine runs; they are nil for a
// type that is left to portable Go. It is set once, at start.
var fast [len(families)]kernels

// workspace is what a product needs beside its operands.
type workspace struct {
	panel []byte             // a stretch of eight rows, interleaved
	rows  []byte             // a stretch of the last rows, filled up to eight
	out   [8 * group]float32 // products of the last rows
}

// panelBytes bounds the stretch of eight rows that a product takes at a time.
// It leaves room in an L1 cache of 32 KiB for the activations, and is so small
// that interleaving and multiplying, which alone fetches, take short turns.
const panelBytes = 8 << 10

// fetchAhead is how far before its use a panel is fetched, in bytes.
const fetchAhead = 2048

var workspaces = sync.Pool{New: func() any { return &workspace{panel: make([]byte, panelBytes)} }}

// mulPanels is [Mul] for quantized types on vector kernels. All layouts and
// numbers of columns come down to the same kernels: eight rows at a time, which
// are a panel already or are made one, stretch by stretch, in the L1 cache.
func mulPanels(dst []float32, ldd int, w *Matrix, a *Acts, k *kernels, r0, r1 int) {
	ws := workspaces.Get().(*workspace)
	defer workspaces.Put(ws)
	whole := min(r1, w.Rows&^7)
	for r := r0; r < whole; r += 8 {
		clear8(dst[r:], ldd, a.n)
		if w.Layout == Panels {
			mulPanel(dst[r:], ldd, w, a, k, r)
		} else {
			mulRows(dst[r:], ldd, w, a, k, ws, r)
		}
	}
	if whole < r1 {
		mulLastRows(dst, ldd, w, a, k, ws, whole, r1)
	}
}

func clear8(dst []float32, ldd, n int) {
	for c := range n {
		clear(dst[c*ldd:][:8])
	}
}

// mulPanel multiplies the panel of rows r to r+7.
//
// It is not inlined, nor are the other callers of kernels: a kernel can't be
// interrupted, and the prologue of its caller is where the garbage collector
// may stop a long loop. No call of a kernel takes more than some 10 µs.
//
//go:noinline
func mulPanel(dst []float32, ldd int, w *Matrix, a *Acts, k *kernels, r int) {
	nb, size := blocksOf(w.Type, w.Cols), w.Type.BlockBytes()
	if nb == 0 {
		return
	}
	panel := w.Data[r*nb*size:][:8*nb*size]
	if a.n <= group {
		mulStretch(dst, ldd, a, k, panel, uintptr(unsafe.Pointer(&panel[0]))+fetchAhead, nb, 0, nb)
		return
	}
	// Cut into stretches that stay in the L1 cache while they meet all columns.
	most := panelBytes / (8 * size)
	for b := 0; b < nb; b += most {
		n := min(most, nb-b)
		mulStretch(dst, ldd, a, k, panel[8*b*size:], 0, nb, b, n)
	}
}

// mulRows multiplies rows r to r+7 of a matrix in layout Rows. The rows are
// eight streams, more than the hardware follows well. But taken together they
// are one, and so the next eight rows are fetched in a line while these are
// multiplied.
//
//go:noinline
func mulRows(dst []float32, ldd int, w *Matrix, a *Acts, k *kernels, ws *workspace, r int) {
	nb, size := blocksOf(w.Type, w.Cols), w.Type.BlockBytes()
	most := panelBytes / (8 * size)
	if nb == 0 {
		return
	}
	rows := w.Data[r*nb*size:][:8*nb*size]
	next := uintptr(unsafe.Pointer(&rows[0])) + uintptr(len(rows))
	for b := 0; b < nb; b += most {
		n := min(most, nb-b)
		k.interleave(n, &ws.panel[0], &rows[b*size], nb*size)
		mulStretch(dst, ldd, a, k, ws.panel, next+uintptr(8*b*size), nb, b, n)
	}
}

// mulStretch multiplies n blocks from block b on, of nb in a row, with all
// columns.
func mulStretch(dst []float32, ldd int, a *Acts, k *kernels, panel []byte, fetch uintptr, nb, b, n int) {
	size := len(a.recs) / (a.n * nb)
	for c := 0; c < a.n; c += group {
		width := min(group, a.n-c)
		k.mul[width-1](n, &panel[0], fetch, &a.recs[(c*nb+b*width)*size], &dst[c*ldd], ldd)
	}
}

// mulLastRows multiplies rows r to r1-1, fewer than eight at the end of a
// matrix, which are in layout Rows always. Rows that do not exist are left as
// whatever the workspace holds.
func mulLastRows(dst []float32, ldd int, w *Matrix, a *Acts, k *kernels, ws *workspace, r, r1 int) {
	nb, size := blocksOf(w.Type, w.Cols), w.Type.BlockBytes()
	most := panelBytes / (8 * size)
	ws.rows = resize(ws.rows, panelBytes)
	recSize := len(a.recs) / max(1, a.n*nb)
	for c := 0; c < a.n; c += group {
		width := min(group, a.n-c)
		clear(ws.out[:])
		for b := 0; b < nb; b += most {
			n := min(most, nb-b)
			for i := r; i < r1; i++ {
				copy(ws.rows[(i-r)*n*size:][:n*size], w.Data[(i*nb+b)*size:])
			}
			k.interleave(n, &ws.panel[0], &ws.rows[0], n*size)
			k.mul[width-1](n, &ws.panel[0], 0, &a.recs[(c*nb+b*width)*recSize], &ws.out[0], 8)
		}
		for i := range width {
			copy(dst[(c+i)*ldd+r:][:r1-r], ws.out[8*i:])
		}
	}
}
