package main

import (
	"fmt"
	"math"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A gridType is a type with super-blocks of 256 whose weights are points of a
// grid: an index stands for several magnitudes, and each has a sign. Looking
// them up takes longer than a product, so it is done once for all columns.
//
// The indices of 32 values are the eight, or for points of eight values every
// first four of eight, bytes that follow on those of the 32 values before.
type gridType struct {
	format
	point   int     // values, or bytes, of a point
	signs   int     // where the signs of the first 32 values are
	step    int     // bytes from those to the next ones
	scale   float32 // of the block's own scale
	offset  int     // what decoded weights are above their values, a power of two
	perSums int     // vectors of decoded weights whose products 16 bits can sum
}

var gridTypes = []gridType{
	{format{name: "IQ2_XXS", size: 66}, 8, 6, 8, 0.125, 64, 1},
	{format{name: "IQ3_XXS", size: 98}, 4, 66, 4, 0.25, 64, 1},
	{format{name: "IQ3_S", size: 110}, 4, 74, 4, 1, 16, 4},
}

// gridQs is where the indices are in all types of grids.
const gridQs = 2

// Offsets in a block of a decoded panel, as in the package's panel.go.
const (
	decodedScales  = 32
	decodedPairs   = decodedScales + 8*32
	decodedWeights = decodedPairs + 4*32
	decodedBlock   = decodedWeights + 64*32
)

// decode makes the blocks of a decoded panel from eight rows that are stride
// bytes apart.
func (t *gridType) decode() {
	TEXT("decode"+t.name, NOSPLIT, fmt.Sprintf("func(nb int, dst, src *byte, stride int, grid *uint%d)", 8*t.point))
	Pragma("noescape")
	Doc("decode" + t.name + " makes a decoded panel of eight rows of nb blocks, see panel.go.")
	nb, dst, src, stride, grid := param("nb"), param("dst"), param("src"), param("stride"), param("grid")
	stride3, src4 := GP64(), GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	LEAQ(Mem{Base: src, Index: stride, Scale: 4}, src4)
	row := func(r, off int) Mem { return eightRows(src, src4, stride, stride3, r, off) }
	h := t.hold()
	nine := t.name == "IQ3_S" // bits of an index
	var indices reg.GPVirtual // memory behind the panel
	if nine {
		indices = GP64()
		IMUL3Q(U32(decodedBlock), nb, indices)
		ADDQ(dst, indices)
	}

	Label("loop")
	t.loadScale(row, dst)
	t.loadSigns(row, Mem{Base: dst, Disp: decodedScales})
	var scales reg.VecVirtual // those of the next 32 values are in the lowest bits
	at, weights, count := GP64(), GP64(), GP64()
	if nine {
		scales = eightWords(row, 106)
		joinIndices(row, indices)
	}
	LEAQ(Mem{Base: dst, Disp: decodedScales}, at)
	LEAQ(Mem{Base: dst, Disp: decodedWeights}, weights)
	MOVQ(U32(8), count)
	Label("values")
	signs, scale := YMM(), YMM()
	VMOVDQU(Mem{Base: at}, signs)
	if nine {
		VPADDD(scales, scales, scale)
		VPAND(lanes(30), scale, scale)
		VPSRLD(Imm(4), scales, scales)
	} else {
		VPSRLD(Imm(27), signs, scale)
		VPAND(lanes(30), scale, scale)
		evenSigns(signs)
	}
	twice := YMM()
	VPSLLD(Imm(16), scale, twice)
	VPOR(twice, scale, scale)
	VPOR(lanes(0x00010001), scale, scale)
	VMOVDQU(scale, Mem{Base: at})
	upper := YMM()
	VPSRLW(Imm(4), signs, upper)
	for v := 0; v < 8; v += t.point / 2 {
		x := t.lookUp(grid, func(r int) (a, b reg.GPVirtual) {
			a, b = GP64(), GP64()
			i := 4 * v / t.point // of the index
			if nine {
				MOVL(Mem{Base: indices, Disp: 128*r + 2*i}, b.As32())
				MOVWLZX(b.As16(), a.As32())
				SHRL(Imm(16), b.As32())
			} else {
				MOVWLZX(row(r, gridQs+i), b.As32())
				MOVBLZX(b.As8(), a.As32())
				SHRL(Imm(8), b.As32())
			}
			return a, b
		})
		for i := range x {
			bits, s := YMM(), signs
			if i%2 == 1 {
				s = upper
			}
			VPSHUFB(h.spread[(v+i)/2], s, bits)
			VPAND(h.bits, bits, bits)
			VPSHUFB(bits, h.signs, bits)
			if t.name == "IQ3_S" {
				VPXOR(bits, x[i], x[i])
			} else {
				VPSIGNB(bits, x[i], x[i])
				VPADDB(h.offset, x[i], x[i])
			}
			VMOVDQU(x[i], Mem{Base: weights, Disp: 32 * (v + i)})
		}
	}
	if nine {
		ADDQ(Imm(16), indices)
	} else {
		ADDQ(Imm(8), src)
		ADDQ(Imm(8), src4)
	}
	ADDQ(Imm(32), at)
	ADDQ(U32(256), weights)
	DECQ(count)
	JNZ(LabelRef("values"))

	for i := range 4 {
		even, pair := YMM(), YMM()
		VMOVDQU(Mem{Base: dst, Disp: decodedScales + 64*i}, even)
		VPBLENDW(Imm(0xaa), Mem{Base: dst, Disp: decodedScales + 64*i + 32}, even, pair)
		VMOVDQU(pair, Mem{Base: dst, Disp: decodedPairs + 32*i})
	}
	ADDQ(U32(decodedBlock), dst)
	rest := t.size - 8*8
	if nine {
		rest = t.size
		SUBQ(U32(8*16), indices)
	}
	ADDQ(Imm(uint64(rest)), src)
	ADDQ(Imm(uint64(rest)), src4)
	DECQ(nb)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// held are the constants that decode needs for each vector.
type held struct {
	spread [4]reg.VecVirtual // shuffles of a byte to all bytes of its lane
	bits   reg.VecVirtual    // 1, 2, 4, 8
	signs  reg.VecVirtual    // what each of those stands for, see below
	offset reg.VecVirtual
}

// hold loads them. Weights are made of magnitudes and the offset by signs of 1
// and -1; or for IQ3_S by one exclusive or: its magnitudes are odd and below 16,
// so that 16+x is x^16 and 16-x is x^14.
func (t *gridType) hold() *held {
	load := func(from Mem) reg.VecVirtual {
		v := YMM()
		VMOVDQU(from, v)
		return v
	}
	h := &held{bits: load(lanes(0x08040201))}
	for i := range h.spread {
		h.spread[i] = load(pick(i, i, i, i))
	}
	plus, minus := int8(1), int8(-1)
	if t.name == "IQ3_S" {
		plus, minus = 16, 14
	} else {
		h.offset = load(bytes(byte(t.offset)))
	}
	h.signs = load(table([16]int8{0: plus, 1: minus, 2: minus, 4: minus, 8: minus}, 0))
	return h
}

// joinIndices writes the 64 indices of each row, eight bits from one place and
// the ninth from another, as 16-bit words.
func joinIndices(row func(r, off int) Mem, out reg.GPVirtual) {
	var each [8]uint32 // a bit for each word
	for i := range each {
		each[i] = 1<<(2*i) | 2<<(2*i)<<16
	}
	bits := YMM()
	VMOVDQU(vector(each), bits)
	for r := range 8 {
		for i := range 4 {
			low, high := YMM(), YMM()
			VPMOVZXBW(row(r, gridQs+16*i), low)
			VPBROADCASTW(row(r, 66+2*i), high)
			VPAND(bits, high, high)
			VPCMPEQW(bits, high, high)
			VPAND(words(256), high, high)
			VPOR(high, low, low)
			VMOVDQU(low, Mem{Base: out, Disp: 128*r + 32*i})
		}
	}
}

// lookUp returns vectors of four magnitudes of each row: two for the points of
// the two indices that next returns for a row, or if a point has eight values
// four. Indices are loaded by twos, for loads are what is scarce. Gathers were
// measured to take twice as long.
func (t *gridType) lookUp(grid reg.GPVirtual, next func(r int) (a, b reg.GPVirtual)) []reg.VecVirtual {
	var x [2][2]reg.VecVirtual
	for r := range 8 {
		a, b := next(r)
		for i, q := range []reg.GPVirtual{a, b} {
			from, v := Mem{Base: grid, Index: q, Scale: uint8(t.point)}, YMM()
			half, mask := 0, uint64(1)<<r
			if t.point == 4 {
				VPBROADCASTD(from, v)
			} else {
				// The rows are 0, 1, 4, 5 and 2, 3, 6, 7, see below.
				half, mask = r/2%2, 3<<(r%2*2+r/4*4)
				VPBROADCASTQ(from, v)
			}
			if x[i][half] == nil {
				x[i][half] = v
			} else {
				VPBLENDD(Imm(mask), v, x[i][half], x[i][half])
			}
		}
	}
	if t.point == 4 {
		return []reg.VecVirtual{x[0][0], x[1][0]}
	}
	out := ymms(4)
	for i := range x { // the lower halves of 64 bits, and the upper ones
		VSHUFPS(Imm(0x88), x[i][1], x[i][0], out[2*i])
		VSHUFPS(Imm(0xdd), x[i][1], x[i][0], out[2*i+1])
	}
	return out
}

// loadScale writes the scales of the rows.
func (t *gridType) loadScale(row func(r, off int) Mem, dst reg.GPVirtual) {
	halves, d := XMM(), YMM()
	VPXOR(halves, halves, halves)
	for r := range 8 {
		VPINSRW(Imm(uint64(r)), row(r, 0), halves, halves)
	}
	VCVTPH2PS(halves, d)
	if t.scale != 1 {
		VMULPS(lanes(math.Float32bits(t.scale)), d, d)
	}
	VMOVUPS(d, Mem{Base: dst})
}

// loadSigns writes eight vectors of the rows' signs, 32 to a lane.
func (t *gridType) loadSigns(row func(r, off int) Mem, out Mem) {
	for i := 0; i < 8; i += 16 / t.step {
		v := t.columns(row, t.signs+4-t.step+t.step*i, 4)
		for j := range 16 / t.step {
			VMOVDQU(v[t.step/4*(j+1)-1], out.Offset(32*(i+j)))
		}
	}
}

// evenSigns replaces, in each lane, the 28 bits of four groups of 7 signs by 32:
// the eighth sign makes the number of minus signs of a group even.
func evenSigns(v reg.VecVirtual) {
	out := YMM()
	VPAND(lanes(0x7f), v, out)
	for i := range 3 {
		t := YMM()
		VPSLLD(Imm(uint64(i+1)), v, t)
		VPAND(lanes(0x7f00<<(8*i)), t, t)
		VPOR(t, out, out)
	}
	odd := YMM()
	VPSRLW(Imm(4), out, odd)
	VPXOR(out, odd, odd)
	VPAND(bytes(15), odd, odd)
	parity := YMM()
	VMOVDQU(table([16]int8{0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0}, 0), parity)
	VPSHUFB(odd, parity, odd)
	VPOR(odd, out, v)
}

// mul adds to the rows of n columns the products of nb blocks of a decoded
// panel. A lane is a row. Products of bytes, with weights from 0 to 126 or to
// 31, are summed in 16-bit lanes as far as those go, then multiplied by the scale
// of 32 values and summed in 32-bit lanes.
func (t *gridType) mul(n int) {
	m := begin(t.name, n, false, rec256)
	panel, fetch := m.panels[0], m.fetch[0]
	Label("loop")
	sum, part := m.vecs(), m.vecs()
	for c := range sum {
		VPXOR(sum[c], sum[c], sum[c])
	}
	at := GP64() // 32 for each 32 values
	XORQ(at, at)
	Label("values")
	scale := m.whole(Mem{Base: panel, Index: at, Scale: 1, Disp: decodedScales})
	for v := range 8 {
		x := m.whole(Mem{Base: panel, Index: at, Scale: 8, Disp: decodedWeights + 32*v})
		for c := range n {
			rec := m.rec(c, 4*v)
			rec.Index, rec.Scale = at, 1
			y := m.spread32(rec)
			if v%t.perSums == 0 {
				VPMADDUBSW(y, x, part[c])
			} else {
				VPMADDUBSW(y, x, y)
				VPADDW(y, part[c], part[c])
			}
			if v%t.perSums == t.perSums-1 {
				VPMADDWD(scale, part[c], part[c])
				VPADDD(part[c], sum[c], sum[c])
			}
		}
	}
	prefetch(fetch, 0, t.size)
	ADDQ(Imm(uint64(t.size)), fetch)
	ADDQ(Imm(32), at)
	CMPQ(at, U32(256))
	JNE(LabelRef("values"))

	for i := range 4 {
		pair := m.whole(Mem{Base: panel, Disp: decodedPairs + 32*i})
		for c := range n {
			y := m.spread32(m.rec(c, rec256S32+4*i))
			if i == 0 {
				VPMADDWD(pair, y, part[c])
			} else {
				VPMADDWD(pair, y, y)
				VPADDD(y, part[c], part[c])
			}
		}
	}
	d := m.whole(Mem{Base: panel})
	for c := range n {
		VPSLLD(Imm(uint64(bits.TrailingZeros(uint(t.offset)))), part[c], part[c])
		VPSUBD(part[c], sum[c], sum[c])
		VCVTDQ2PS(sum[c], sum[c])
		VMULPS(d, sum[c], sum[c])
		VMULPS(m.spreadF(m.rec(c, rec256D)), sum[c], sum[c])
		VADDPS(m.col(c), sum[c], sum[c])
		VMOVUPS(sum[c], m.col(c))
	}
	ADDQ(U32(decodedBlock), panel)
	ADDQ(U32(uint32(n*rec256)), m.recs[0])
	DECQ(m.nb)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
