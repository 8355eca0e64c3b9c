package kernel

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// Acts holds the activations of n columns of length k in the form that a
// family of weight types wants. The zero value is empty; buffers are reused,
// so that a steady state allocates nothing.
//
// All types of a family share a form: the float types, the types with blocks
// of 32, and the types with super-blocks of 256.
//
// Reset and the calls of Quantize that follow it must not overlap with a [Mul]
// that reads the same Acts. Quantize may run at once on disjoint columns, and
// any number of Muls may read one Acts.
type Acts struct {
	form form
	n, k int
	f32  []float32 // formFloat: column after column
	recs []byte    // form32, form256: records, see below
}

// The columns are taken in groups of four, the last of which may be narrower.
// A group holds for each block the records of its columns, so that a kernel
// for four columns follows one pointer. A record:
//
//	form32                                   form256
//	 0  q      32 int8                         0  q      256 int8
//	32  d      float32                       256  pairs  16 x 2 int16, per 16 values
//	36  ds     float32, d * sum of q         320  s16    16 int16, sums of q per 16 values
//	40  pairs  2 int16                       352  s32    8 int16, sums of q per 32 values
//	44         unused                        368  d      float32
//	                                         372         unused
//
// pairs subtracts the offset of an unsigned weight inside a product of 16-bit
// lanes. Lane 0 of a row meets the values 4i and 4i+1, lane 1 the values 4i+2
// and 4i+3; so pairs holds the sums of these q, times -8 or -32.
const (
	group = 4 // columns

	rec32      = 48
	rec32D     = 32
	rec32DS    = 36
	rec32Pairs = 40

	rec256      = 384
	rec256Pairs = 256
	rec256S16   = 320
	rec256S32   = 352
	rec256D     = 368
)

var (
	recordSize   = [...]int{form32: rec32, form256: rec256}
	recordValues = [...]int{form32: 32, form256: 256}
)

// Reset sizes a for n columns of length k that meet weights of type t. It
// panics if t is not [Supported] or k is not a whole number of t's blocks.
func (a *Acts) Reset(t gguf.Type, n, k int) {
	f := familyOf(t).form
	if f == 0 || n < 0 || k < 0 || k%t.BlockValues() != 0 {
		panic(fmt.Sprintf("kernel: activations: %d columns of %d values for %v", n, k, t))
	}
	a.form, a.n, a.k = f, n, k
	switch f {
	case formFloat:
		a.f32 = resize(a.f32, n*k)
	default:
		a.recs = resize(a.recs, n*(k/recordValues[f])*recordSize[f])
	}
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// Quantize takes over columns [c0, c1) of x, which holds all n columns, column
// c at x[c*k:].
func (a *Acts) Quantize(x []float32, c0, c1 int) {
	x = x[:a.n*a.k]
	for c := c0; c < c1 && a.k > 0; c++ {
		col := x[c*a.k : (c+1)*a.k]
		switch {
		case a.form == formFloat:
			copy(a.f32[c*a.k:], col)
		case a.form == form32 && quantize32 != nil:
			off, stride := a.column(c)
			quantize32(a.k/32, &col[0], &a.recs[off], stride)
		case a.form == form256 && quantize256 != nil:
			off, stride := a.column(c)
			quantize256(a.k/256, &col[0], &a.recs[off], stride)
		default:
			a.quantizeGeneric(col, c)
		}
	}
}

// quantize32 and quantize256 write nb records of column x, stride bytes apart.
// They are set once, at start, and nil where there are no vector kernels.
var quantize32, quantize256 func(nb int, x *float32, recs *byte, stride int)

// quantizeGeneric takes over column c, whose values are col. It is the
// definition that vector kernels obey.
func (a *Acts) quantizeGeneric(col []float32, c int) {
	switch a.form {
	case form32:
		off, stride := a.column(c)
		quantize32Generic(a.recs[off:], stride, col)
	case form256:
		off, stride := a.column(c)
		quantize256Generic(a.recs[off:], stride, col)
	default:
		copy(a.f32[c*a.k:], col)
	}
}

// column returns where column c's record of block 0 is, and the distance from
// a block's record to the next one's.
func (a *Acts) column(c int) (off, stride int) {
	first := c / group * group
	width := min(group, a.n-first)
	size := recordSize[a.form]
	return a.record(first, width, 0) + (c-first)*size, width * size
}

// record returns where the records of block b are, in the group of width
// columns that begins with column c.
func (a *Acts) record(c, width, b int) int {
	size := recordSize[a.form]
	return (c*(a.k/recordValues[a.form]) + b*width) * size
}

// quantize32Generic writes the records of column x, stride bytes apart.
func quantize32Generic(recs []byte, stride int, x []float32) {
	for off := 0; len(x) > 0; off, x = off+stride, x[32:] {
		r := (*[rec32]byte)(recs[off:])
		d := quantize((*[32]byte)(r[:]), x[:32])
		lo, hi := pairSums(r[:32])
		putF32(r[rec32D:], d)
		putF32(r[rec32DS:], float32(d*float32(lo+hi)))
		putPairs(r[rec32Pairs:], -8*lo, -8*hi)
	}
}

// quantize256Generic writes the records of column x, stride bytes apart.
func quantize256Generic(recs []byte, stride int, x []float32) {
	for off := 0; len(x) > 0; off, x = off+stride, x[256:] {
		r := (*[rec256]byte)(recs[off:])
		putF32(r[rec256D:], quantize((*[256]byte)(r[:]), x[:256]))
		for i := range 16 {
			lo, hi := pairSums(r[16*i : 16*i+16])
			putPairs(r[rec256Pairs+4*i:], -32*lo, -32*hi)
			binary.LittleEndian.PutUint16(r[rec256S16+2*i:], uint16(lo+hi))
		}
		for i := range 8 {
			s := int16At(r[:], rec256S16+4*i) + int16At(r[:], rec256S16+4*i+2)
			binary.LittleEndian.PutUint16(r[rec256S32+2*i:], uint16(s))
		}
	}
}

// quantize sets q to x in units of the returned scale d, as doc.go defines it.
func quantize[A *[32]byte | *[256]byte](q A, x []float32) (d float32) {
	const inf = 0x7f800000
	var mag uint32 // of the greatest magnitude; NaNs are above infinity
	for _, v := range x {
		mag = max(mag, math.Float32bits(v)&^(1<<31))
	}
	d = math.Float32frombits(mag) / 127
	id := 1 / d
	switch {
	case mag >= inf:
		d, id = math.Float32frombits(0x7fc00000), 0
	case math.Float32bits(id) >= inf: // d is 0, or below what has a reciprocal
		d, id = 0, 0
	}
	if id == 0 {
		for i := range x {
			q[i] = 0
		}
		return d
	}
	// In [2^23, 2^24) float32 numbers are 1 apart, so that the addition rounds
	// to the nearest integer, and to the even one of two.
	const magic = 0x1.8p23
	for i, v := range x {
		q[i] = byte(math.Float32bits(float32(v*id) + magic))
	}
	return d
}

// pairSums returns the sums of the values of q at 4i and 4i+1, and of those at
// 4i+2 and 4i+3.
func pairSums(q []byte) (lo, hi int) {
	for ; len(q) >= 4; q = q[4:] {
		lo += int(int8(q[0])) + int(int8(q[1]))
		hi += int(int8(q[2])) + int(int8(q[3]))
	}
	return lo, hi
}

func putPairs(b []byte, lo, hi int) {
	binary.LittleEndian.PutUint16(b, uint16(lo))
	binary.LittleEndian.PutUint16(b[2:], uint16(hi))
}

func putF32(b []byte, f float32) { binary.LittleEndian.PutUint32(b, math.Float32bits(f)) }

func f32At(b []byte, off int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[off:]))
}

func int16At(b []byte, off int) int16 { return int16(binary.LittleEndian.Uint16(b[off:])) }
