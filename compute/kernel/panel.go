package kernel

import (
	"sync"
	"unsafe"
)

// kernels are the vector kernels of a quantized type.
//
// interleave makes a panel of nb blocks in dst from eight rows that begin
// stride bytes apart in src. Types of grids have decode instead, which makes a
// decoded panel.
//
// mul[n-1] adds to eight rows of n columns, ldd apart in dst, the products of
// nb blocks of a panel and the records of those n columns. It brings as many
// bytes into the cache from fetch, which may be no memory at all.
//
// wide, if there are such, do the same for two panels that begin stride bytes
// apart, and for one group of columns or two, whose records begin at recs and
// recs2.
type kernels struct {
	interleave func(nb int, dst, src *byte, stride int)
	decode     func(nb int, dst, src *byte, stride int)
	mul        [group]mulFunc
	wide       wideKernels
}

type (
	mulFunc  = func(nb int, panel *byte, fetch uintptr, recs *byte, dst *float32, ldd int)
	wideFunc = func(nb int, panels *byte, stride int, fetch, fetch2 uintptr, recs, recs2 *byte, dst *float32, ldd int)
)

// A decoded panel is what products with weights of a type of grids are computed
// from. It has for each block of eight rows:
//
//	  0  d        8 float32
//	 32  scales   8 vectors, or 16 where scales are for 16 values: a row's scale twice, int16
//	544  pairs    4 vectors, or 8: a row's two next scales, int16
//	800  weights  64 vectors: four values of a row, plus 64, or 16 for IQ3_S, uint8
//
// Behind its blocks is memory that decode needs.
const (
	decodedBlock   = 800 + 64*32
	decodedScratch = 8 * 64 * 2
)

// fill makes a panel of n blocks from block b on of eight rows in layout Rows,
// which begin stride bytes apart. It is not inlined for the reason given at
// mulGroup.
//
//go:noinline
func (k *kernels) fill(panel []byte, n int, rows []byte, stride int) {
	if k.decode != nil {
		k.decode(n, &panel[0], &rows[0], stride)
		return
	}
	k.interleave(n, &panel[0], &rows[0], stride)
}

// stretch returns how many blocks of size bytes, of eight rows, a product takes
// at a time.
func (k *kernels) stretch(size int) int {
	if k.decode != nil {
		return (2*panelBytes - decodedScratch) / decodedBlock // there is no second panel
	}
	return panelBytes / (8 * size)
}

// wideKernels take one group of columns, and two.
type wideKernels struct{ group, groups wideFunc }

// columns returns the kernel for the first of n columns, and how many it takes:
// none if they are too few, or there is no such kernel.
func (k *wideKernels) columns(n int) (mul wideFunc, width int) {
	switch {
	case k.group == nil || n < group:
		return nil, 0
	case n >= 2*group:
		return k.groups, 2 * group
	}
	return k.group, group
}

// fast holds by type the kernels that this machine runs; they are nil for a
// type that is left to portable Go. It is set once, at start.
var fast [len(families)]kernels

// panelBytes bounds the stretch of eight rows that a product takes at a time.
// It leaves room in an L1 cache of 32 KiB for the activations, and is so small
// that interleaving and multiplying, which alone fetches, take short turns.
const panelBytes = 8 << 10

// fetchAhead is how far before its use a panel is fetched, in bytes.
const fetchAhead = 2048

// workspace is what a product needs beside its operands.
type workspace struct {
	panels [2 * panelBytes]byte // stretches of eight rows, interleaved
	rows   [panelBytes]byte     // a stretch of the last rows, filled up to eight
	out    [8 * group]float32   // products of the last rows
	block  block                // for portable Go

	floats [packedFloats]float32            // packed weights
	lanes  [blockColumns * rowLanes]float32 // for float weights
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// blockColumns is the number of columns that are taken through all rows before
// the next. Their records stay in the L2 cache.
const blockColumns = 64

// mulPanels is [Mul] for quantized types on vector kernels. All layouts and
// numbers of columns come down to the same kernels: eight rows at a time, which
// are a panel already or are made one, stretch by stretch, in the L1 cache.
func mulPanels(dst []float32, ldd int, w *Matrix, a *Acts, k *kernels, r0, r1 int) {
	ws := workspaces.Get().(*workspace)
	defer workspaces.Put(ws)
	whole := min(r1, w.Rows&^7)
	for c0 := 0; c0 < a.n; c0 += blockColumns {
		c1 := min(c0+blockColumns, a.n)
		r := r0
		if _, width := k.wide.columns(c1 - c0); width > 0 {
			for ; r+16 <= whole; r += 16 {
				mulRows(dst, ldd, w, a, k, ws, r, 2, c0, c1)
			}
		}
		for ; r < whole; r += 8 {
			mulRows(dst, ldd, w, a, k, ws, r, 1, c0, c1)
		}
	}
	if whole < r1 {
		mulLastRows(dst, ldd, w, a, k, ws, whole, r1)
	}
}

// mulRows multiplies one or two panels of rows from r on with columns [c0, c1).
//
// In layout Rows a panel is eight streams, more than the hardware follows well.
// But taken together they are one, and so the next rows are fetched in a line
// while these are multiplied.
func mulRows(dst []float32, ldd int, w *Matrix, a *Acts, k *kernels, ws *workspace, r, panels, c0, c1 int) {
	for c := c0; c < c1; c++ {
		clear(dst[c*ldd+r:][:8*panels])
	}
	nb, size := w.blocks()
	rows := w.Data[r*nb*size:][:8*panels*nb*size]
	stretch, stride := k.stretch(size), 8*nb*size
	ahead := fetchAhead
	if w.Layout == Rows {
		ahead, stride = len(rows), panelBytes
	} else if c1-c0 <= group {
		stretch = nb // which meets the panel once, wherever it is
	}
	for b := 0; b < nb; b += stretch {
		n := min(stretch, nb-b)
		from := rows[8*b*size:]
		fetch := uintptr(unsafe.Pointer(&from[0])) + uintptr(ahead)
		if w.Layout == Rows {
			from = ws.panels[:]
			for p := range panels {
				k.fill(from[p*stride:], n, rows[(8*p*nb+b)*size:], nb*size)
			}
		}
		for c := c0; c < c1; {
			if mul, width := k.wide.columns(c1 - c); panels == 2 && width > 0 {
				mulWide(mul, n, from, stride, fetch, fetch+uintptr(8*nb*size), a, c, width, b, dst[c*ldd+r:], ldd)
				c += width
				continue
			}
			width := min(group, c1-c)
			for p := range panels {
				mulGroup(k.mul[width-1], n, from[p*stride:], fetch+uintptr(8*nb*size*p), a, c, width, b, dst[c*ldd+r+8*p:], ldd)
			}
			c += width
		}
	}
}

// mulGroup calls a kernel for n blocks from block b on of a panel, and width
// columns from c on.
//
// It is not inlined, nor are the other callers of kernels: a kernel can't be
// interrupted, and the prologue of its caller is where the garbage collector
// may stop a long loop. No call of a kernel takes more than some 10 µs.
//
//go:noinline
func mulGroup(mul mulFunc, n int, panel []byte, fetch uintptr, a *Acts, c, width, b int, dst []float32, ldd int) {
	mul(n, &panel[0], fetch, &a.recs[a.record(c, width, b)], &dst[0], ldd)
}

// mulWide calls a kernel for n blocks from block b on of two panels, and width
// columns from c on.
//
//go:noinline
func mulWide(mul wideFunc, n int, panels []byte, stride int, fetch, fetch2 uintptr, a *Acts, c, width, b int, dst []float32, ldd int) {
	var recs2 *byte
	if width > group {
		recs2 = &a.recs[a.record(c+group, group, b)]
	}
	mul(n, &panels[0], stride, fetch, fetch2, &a.recs[a.record(c, group, b)], recs2, &dst[0], ldd)
}

// mulLastRows multiplies rows [r, r1), fewer than eight at the end of a matrix,
// which are in layout Rows always. In place of the rows that would make them
// eight is whatever the workspace holds.
func mulLastRows(dst []float32, ldd int, w *Matrix, a *Acts, k *kernels, ws *workspace, r, r1 int) {
	nb, size := w.blocks()
	stretch := k.stretch(size)
	for c := 0; c < a.n; c += group {
		width := min(group, a.n-c)
		clear(ws.out[:])
		for b := 0; b < nb; b += stretch {
			n := min(stretch, nb-b)
			for i := r; i < r1; i++ {
				copy(ws.rows[(i-r)*n*size:][:n*size], w.Data[(i*nb+b)*size:])
			}
			k.fill(ws.panels[:], n, ws.rows[:], n*size)
			mulGroup(k.mul[width-1], n, ws.panels[:], 0, a, c, width, b, ws.out[:], 8)
		}
		for i := range width {
			copy(dst[(c+i)*ldd+r:][:r1-r], ws.out[8*i:])
		}
	}
}
