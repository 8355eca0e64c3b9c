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
// In the XXS types an index is a byte, and those of 32 values are the eight, or
// for points of eight values every first four of eight, bytes that follow on those
// of the 32 values before. In the others an index has more bits.
type gridType struct {
	format
	point   int     // values, or bytes, of a point
	signs   int     // where the signs of the first 32 values are
	step    int     // bytes from those to the next ones
	scales  int     // where the scales are that have bytes of their own
	halves  bool    // a scale is for 16 values, not 32
	scale   float32 // of the block's own scale
	offset  int     // what decoded weights are above their values, a power of two
	perSums int     // vectors of decoded weights whose products 16 bits can sum
}

var gridTypes = []gridType{
	{format{name: "IQ2_XXS", size: 66}, 8, 6, 8, 0, false, 0.125, 64, 1},
	{format{name: "IQ2_XS", size: 74}, 8, 2, 8, 66, true, 0.125, 64, 1},
	{format{name: "IQ2_S", size: 82}, 8, 34, 4, 74, true, 0.125, 64, 1},
	{format{name: "IQ3_XXS", size: 98}, 4, 66, 4, 0, false, 0.25, 64, 1},
	{format{name: "IQ3_S", size: 110}, 4, 74, 4, 106, false, 1, 16, 4},
}

// sevens reports whether seven signs stand for eight.
func (t *gridType) sevens() bool { return t.name != "IQ2_S" && t.name != "IQ3_S" }

// gridQs is where the indices are in all types of grids.
const gridQs = 2

// Offsets in a block of a decoded panel, as in the package's panel.go.
const (
	decodedScales  = 32
	decodedPairs   = decodedScales + 16*32
	decodedWeights = decodedPairs + 8*32
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
	joined := t.scales > 0    // indices are made words in memory behind the panel
	var indices reg.GPVirtual // where
	row16 := 2 * 256 / t.point
	if joined {
		indices = GP64()
		IMUL3Q(U32(decodedBlock), nb, indices)
		ADDQ(dst, indices)
	}

	Label("loop")
	t.loadScale(row, dst)
	t.loadSigns(row, Mem{Base: dst, Disp: decodedPairs})
	var scales [2]reg.VecVirtual // those of the next values are in the lowest bits
	if joined {
		t.joinIndices(row, indices, row16)
		scales[0] = eightWords(row, t.scales)
		if t.halves {
			scales[1] = eightWords(row, t.scales+4)
		}
	}
	at := GP64() // 32 for each 32 values
	XORQ(at, at)
	Label("values")
	signs := YMM()
	VMOVDQU(Mem{Base: dst, Index: at, Scale: 1, Disp: decodedPairs}, signs)
	t.spreadScales(signs, scales, dst, at)
	if t.sevens() {
		if !joined {
			spreadSigns(signs)
		}
		evenSigns(signs)
	}
	upper := YMM()
	VPSRLW(Imm(4), signs, upper)
	for v := 0; v < 8; v += t.point / 2 {
		x := t.lookUp(grid, func(r int) (a, b reg.GPVirtual) {
			a, b = GP64(), GP64()
			i := 4 * v / t.point // of the index
			if joined {
				MOVL(Mem{Base: indices, Disp: row16*r + 2*i}, b.As32())
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
			VMOVDQU(x[i], Mem{Base: dst, Index: at, Scale: 8, Disp: decodedWeights + 32*(v+i)})
		}
	}
	if joined {
		ADDQ(Imm(uint64(row16/8)), indices)
	} else {
		ADDQ(Imm(8), src)
		ADDQ(Imm(8), src4)
	}
	ADDQ(Imm(32), at)
	CMPQ(at, U32(256))
	JNE(LabelRef("values"))

	for i := 0; i < 4 && !t.halves; i++ {
		even, pair := YMM(), YMM()
		VMOVDQU(Mem{Base: dst, Disp: decodedScales + 64*i}, even)
		VPBLENDW(Imm(0xaa), Mem{Base: dst, Disp: decodedScales + 64*i + 32}, even, pair)
		VMOVDQU(pair, Mem{Base: dst, Disp: decodedPairs + 32*i})
	}
	ADDQ(U32(decodedBlock), dst)
	rest := t.size - 8*8
	if joined {
		rest = t.size
		SUBQ(U32(uint32(row16)), indices)
	}
	ADDQ(Imm(uint64(rest)), src)
	ADDQ(Imm(uint64(rest)), src4)
	DECQ(nb)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// spreadScales writes the scales of 32 values, which are the upper four bits of
// signs or the lower ones of scales, as 16-bit pairs.
func (t *gridType) spreadScales(signs reg.VecVirtual, scales [2]reg.VecVirtual, dst, at reg.GPVirtual) {
	pair := func(scale reg.VecVirtual) {
		twice := YMM()
		VPAND(lanes(30), scale, scale)
		VPSLLD(Imm(16), scale, twice)
		VPOR(twice, scale, scale)
		VPOR(lanes(0x00010001), scale, scale)
	}
	a := YMM()
	switch {
	case t.halves:
		b, both := YMM(), YMM()
		VPADDD(scales[0], scales[0], a)
		VPSRLD(Imm(3), scales[0], b)
		pair(a)
		pair(b)
		VMOVDQU(a, Mem{Base: dst, Index: at, Scale: 2, Disp: decodedScales})
		VMOVDQU(b, Mem{Base: dst, Index: at, Scale: 2, Disp: decodedScales + 32})
		VPBLENDW(Imm(0xaa), b, a, both)
		VMOVDQU(both, Mem{Base: dst, Index: at, Scale: 1, Disp: decodedPairs})
		next := YMM()
		VPSLLD(Imm(24), scales[1], next)
		VPSRLD(Imm(8), scales[1], scales[1])
		VPSRLD(Imm(8), scales[0], scales[0])
		VPOR(next, scales[0], scales[0])
		return
	case t.scales > 0:
		VPADDD(scales[0], scales[0], a)
		VPSRLD(Imm(4), scales[0], scales[0])
	default:
		VPSRLD(Imm(27), signs, a)
	}
	pair(a)
	VMOVDQU(a, Mem{Base: dst, Index: at, Scale: 1, Disp: decodedScales})
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

// joinIndices writes the indices of each row, whose bits are in two places or
// have signs above them, as words: a row's in size bytes.
func (t *gridType) joinIndices(row func(r, off int) Mem, out reg.GPVirtual, size int) {
	// What selects the upper bits of 16 indices in a word that has those of
	// all; or moves them to their place; or selects a whole index.
	var each [8]uint32
	for i := range each {
		switch t.name {
		case "IQ2_XS":
			each[i] = 511 | 511<<16
		case "IQ2_S":
			each[i] = 256>>(i%2*4) | 64>>(i%2*4)<<16
		case "IQ3_S":
			each[i] = 1<<(2*i) | 2<<(2*i)<<16
		}
	}
	bits := YMM()
	VMOVDQU(vector(each), bits)
	for r := range 8 {
		for i := range size / 32 {
			low, high := YMM(), YMM()
			switch t.name {
			case "IQ2_XS":
				VPAND(row(r, gridQs+32*i), bits, low)
			case "IQ2_S":
				VPMOVZXBW(row(r, gridQs+16*i), low)
				VPBROADCASTD(row(r, 66+4*i), high)
				// Two bits for each of four indices in a byte.
				VPSHUFB(vector([8]uint32{0x80008000, 0x80008000, 0x80018001, 0x80018001, 0x80028002, 0x80028002, 0x80038003, 0x80038003}), high, high)
				VPMULLW(bits, high, high)
				VPAND(words(0x300), high, high)
				VPOR(high, low, low)
			case "IQ3_S":
				VPMOVZXBW(row(r, gridQs+16*i), low)
				VPBROADCASTW(row(r, 66+2*i), high)
				VPAND(bits, high, high)
				VPCMPEQW(bits, high, high)
				VPAND(words(256), high, high)
				VPOR(high, low, low)
			}
			VMOVDQU(low, Mem{Base: out, Disp: size*r + 32*i})
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

// loadSigns writes eight vectors of the rows' signs, 32 to a lane; in the XXS
// types they are 28, and in IQ2_XS 7 to a byte.
func (t *gridType) loadSigns(row func(r, off int) Mem, out Mem) {
	if t.name == "IQ2_XS" { // they are above the indices
		for i := 0; i < 8; i += 2 {
			v := t.columns(row, t.signs+t.step*i, 4)
			for j := range 2 {
				a, b := v[2*j], v[2*j+1]
				VPSRLW(Imm(9), a, a)
				VPSRLW(Imm(9), b, b)
				VPSHUFB(pick(0, 2, -1, -1), a, a)
				VPSHUFB(pick(-1, -1, 0, 2), b, b)
				VPOR(a, b, b)
				VMOVDQU(b, out.Offset(32*(i+j)))
			}
		}
		return
	}
	for i := 0; i < 8; i += 16 / t.step {
		v := t.columns(row, t.signs+4-t.step+t.step*i, 4)
		for j := range 16 / t.step {
			VMOVDQU(v[t.step/4*(j+1)-1], out.Offset(32*(i+j)))
		}
	}
}

// spreadSigns moves, in each lane, the 28 bits of four groups of 7 signs to a
// byte for each group.
func spreadSigns(v reg.VecVirtual) {
	out := YMM()
	VPAND(lanes(0x7f), v, out)
	for i := range 3 {
		t := YMM()
		VPSLLD(Imm(uint64(i+1)), v, t)
		VPAND(lanes(0x7f00<<(8*i)), t, t)
		VPOR(t, out, out)
	}
	VMOVDQA(out, v)
}

// evenSigns adds to 7 signs in each byte the eighth, which makes the number of
// minus signs even.
func evenSigns(v reg.VecVirtual) {
	odd := YMM()
	VPSRLW(Imm(4), v, odd)
	VPXOR(v, odd, odd)
	VPAND(bytes(15), odd, odd)
	parity := YMM()
	VMOVDQU(table([16]int8{0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0}, 0), parity)
	VPSHUFB(odd, parity, odd)
	VPOR(odd, v, v)
}

// mul adds to the rows of n columns the products of nb blocks of a decoded
// panel. A lane is a row. Products of bytes, with weights from 0 to 126 or to
// 31, are summed in 16-bit lanes as far as those go, then multiplied by their
// scale and summed in 32-bit lanes.
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
	var scale reg.VecVirtual
	for v := range 8 {
		switch {
		case t.halves && v%4 == 0:
			scale = m.whole(Mem{Base: panel, Index: at, Scale: 2, Disp: decodedScales + 8*v})
		case v == 0:
			scale = m.whole(Mem{Base: panel, Index: at, Scale: 1, Disp: decodedScales})
		}
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

	pairs, sums := 4, rec256S32
	if t.halves {
		pairs, sums = 8, rec256S16
	}
	m.pairwise(part, pairs, func(i int) reg.VecVirtual { return m.whole(Mem{Base: panel, Disp: decodedPairs + 32*i}) }, sums)
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
