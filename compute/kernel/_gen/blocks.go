package main

import (
	"cmp"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A blockType is a type with blocks of 32.
type blockType struct {
	format
	lookup  *[16]int8 // nibbles stand for these values
	offset  int       // what unsigned weights are above their values
	signed  bool      // weights have 8 bits: with offset 128 only if 32 bits take their products
	minimum bool
}

var blockTypes = []blockType{
	{format: format{"Q4_0", 18, []field{{0, 2, 2}, {2, 16, 4}}, false}, offset: 8},
	{format: format{"Q4_1", 20, []field{{0, 2, 2}, {2, 2, 2}, {4, 16, 4}}, false}, minimum: true},
	{format: format{"Q5_0", 22, []field{{0, 2, 2}, {2, 4, 4}, {6, 16, 4}}, true}, offset: 16},
	{format: format{"Q5_1", 24, []field{{0, 2, 2}, {2, 2, 2}, {4, 4, 4}, {8, 16, 4}}, true}, minimum: true},
	{format: format{"Q8_0", 34, []field{{0, 2, 2}, {2, 32, 4}}, false}, signed: true, offset: 128},
	{format: format{"IQ4_NL", 18, []field{{0, 2, 2}, {2, 16, 4}}, false}, signed: true, offset: 128, lookup: &iq4},
	{format: format{"MXFP4", 17, []field{{0, 1, 1}, {1, 16, 4}}, false}, offset: 16, lookup: &fp4},
}

// mul adds to the rows of n columns the products of nb blocks. A lane is a row.
//
// AVX2: products of bytes are summed in 16-bit lanes within a block, which never
// overflow: 16 of them times 15 times 127 is below 2^15, and where weights have
// more bits the sum is either cut in two or brought into range by the offset,
// for additions that wrap around lose nothing if the end is in range. Signed
// weights of 8 bits are multiplied as their magnitudes with activations that
// take their signs, and summed in 32-bit lanes.
//
// VNNI: products of bytes are summed in 32-bit lanes.
func (t *blockType) mul(n int, wide bool) {
	m := begin(t.name, n, wide, rec32)
	signed := t.signed && !m.wide
	var held []Mem
	if t.name != "Q8_0" {
		held = append(held, bytes(15))
	} else if wide {
		held = append(held, bytes(128))
	}
	if t.fifths && (wide || n < 4) {
		held = append(held, bytes(16))
	}
	values := table(*cmp.Or(t.lookup, new([16]int8)), t.offset)
	if signed {
		values = table(*cmp.Or(t.lookup, new([16]int8)), 0)
		held = append(held, words(1))
	}
	if t.lookup != nil {
		held = append(held, values)
	}
	m.hold(held...)
	acc := m.vecs()
	for c := range acc {
		VMOVUPS(m.col(c), acc[c])
	}

	Label("loop")
	sum16, sum := m.vecs(), m.vecs()
	empty16, empty := true, true
	// flush moves the 16-bit sums to the 32-bit ones.
	flush := func() {
		for c := range n {
			if empty {
				VPMADDWD(words(1), sum16[c], sum[c])
			} else {
				VPMADDWD(words(1), sum16[c], sum16[c])
				VPADDD(sum16[c], sum[c], sum[c])
			}
		}
		empty16, empty = true, false
	}
	// mac multiplies the weights x, four of each row, with the activations
	// from value i on.
	mac := func(x reg.VecVirtual, i int) {
		mag := x
		if signed {
			mag = YMM()
			VPABSB(x, mag)
		}
		for c := range n {
			if m.wide {
				VPDPBUSD_BCST(m.rec(c, i), x, sum[c])
				continue
			}
			y := m.spread32(m.rec(c, i))
			switch {
			case signed:
				VPSIGNB(x, y, y)
				VPMADDUBSW(y, mag, y)
				if empty {
					VPMADDWD(m.constant(words(1)), y, sum[c])
				} else {
					VPMADDWD(m.constant(words(1)), y, y)
					VPADDD(y, sum[c], sum[c])
				}
			case empty16:
				VPMADDUBSW(y, x, sum16[c])
			default:
				VPMADDUBSW(y, x, y)
				VPADDW(y, sum16[c], sum16[c])
			}
		}
		if signed {
			empty = false
		} else {
			empty16 = false
		}
	}
	if m.wide {
		for c := range n {
			if t.offset == 0 {
				VPSUBD(sum[c], sum[c], sum[c]) // which avo, unlike VPXORD, knows to need no input
				continue
			}
			VPBROADCASTD(m.rec(c, rec32Pairs), sum[c]) // times -8
			VPMADDWD(words(uint32(t.offset/8)), sum[c], sum[c])
		}
	}

	qs := t.at(len(t.panel) - 1)
	if t.name == "Q8_0" {
		for v := range 8 {
			x := m.load(qs + 32*v)
			if m.wide {
				m.xor(m.constant(bytes(128)), x, x)
			}
			mac(x, 4*v)
		}
	} else {
		for g := range 4 {
			q := m.load(qs + 32*g)
			for h := range 2 {
				x := m.bits(q, 4*h, 0, 15)
				if t.lookup != nil {
					VPSHUFB(x, m.held[values.Symbol.Name], x)
				}
				if t.fifths { // those of vector v are bit v of each byte
					m.or(m.bits(m.load(qs-32), 4*h+g, 4, 16), x, x)
				}
				mac(x, 16*h+4*g)
			}
			if g == 1 && t.fifths && t.minimum && !m.wide {
				flush() // 16 products times 31 times 127 would be too much
			}
		}
	}
	if !signed && !m.wide {
		for c := range n {
			if t.offset == 0 {
				continue
			}
			pairs := m.spread32(m.rec(c, rec32Pairs)) // times -8
			for range t.offset / 8 {
				VPADDW(pairs, sum16[c], sum16[c])
			}
		}
		flush()
	}

	d := t.scale(m)
	var floor reg.VecVirtual
	if t.minimum {
		floor = m.halves(t.at(1))
	}
	for c := range n {
		VCVTDQ2PS(sum[c], sum[c])
		y := m.spreadF(m.rec(c, rec32D))
		VMULPS(d, y, y)
		VMULPS(y, sum[c], sum[c])
		VADDPS(sum[c], acc[c], acc[c])
		if t.minimum {
			y := m.spreadF(m.rec(c, rec32DS))
			VMULPS(floor, y, y)
			VADDPS(y, acc[c], acc[c])
		}
	}
	m.ahead(0, 8*t.size)
	m.next(8 * t.size)
	for c := range acc {
		VMOVUPS(acc[c], m.col(c))
	}
	VZEROUPPER()
	RET()
}

// scale returns the scales of the rows.
func (t *blockType) scale(m *machine) reg.VecVirtual {
	if t.name != "MXFP4" {
		return m.halves(0)
	}
	// 2^(e-128) is (e-1)<<23, and for e below 2 the subnormal 1<<(21+e). With
	// that of min(e, 1) the right one is the greater of the two.
	e, small, shift := m.vec(), m.whole(lanes(0x00200000)), m.vec()
	VPMOVZXBD(m.load8(0), e)
	VPMINSD(lanes(1), e, shift)
	VPSLLVD(shift, small, small)
	VPADDD(lanes(0xffffffff), e, e)
	VPSLLD(Imm(23), e, e)
	VPMAXSD(small, e, e)
	return e
}
