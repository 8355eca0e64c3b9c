package main

import (
	"fmt"

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

// mul adds to eight rows of n columns the products of nb blocks of a panel. A
// lane is a row.
//
// AVX2: products of bytes are summed in 16-bit lanes within a block, which never
// overflow: 16 of them times 15 times 127 is below 2^15, and where weights have
// more bits the sum is either cut in two or brought into range by the offset,
// for additions that wrap around lose nothing if the end is in range. Signed
// weights of 8 bits are multiplied as their magnitudes with activations that
// take their signs, and summed in 32-bit lanes.
//
// VNNI: products of bytes are summed in 32-bit lanes.
func (t *blockType) mul(isa string, n int) {
	TEXT(fmt.Sprintf("mul%sx%d%s", t.name, n, isa), NOSPLIT,
		"func(nb int, panel *byte, fetch uintptr, recs *byte, dst *float32, ldd int)")
	Pragma("noescape")
	vnni := isa == "VNNI"
	signed := t.signed && !vnni
	nb, w, fetch, a := param("nb"), param("panel"), param("fetch"), param("recs")
	dst := destination(n)
	acc := ymms(n)
	for c := range acc {
		VMOVUPS(dst.col(c), acc[c])
	}
	nibble := YMM()
	if t.name != "Q8_0" {
		VMOVDQU(bytes(15), nibble)
	}
	ones := lanes(0x00010001)

	Label("loop")
	rec := func(c, off int) Mem { return Mem{Base: a, Disp: c*rec32 + off} }
	sum16, sum := ymms(n), ymms(n)
	empty16, empty := true, true
	// flush moves the 16-bit sums to the 32-bit ones.
	flush := func() {
		for c := range n {
			if empty {
				VPMADDWD(ones, sum16[c], sum[c])
			} else {
				VPMADDWD(ones, sum16[c], sum16[c])
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
			if vnni {
				VPDPBUSD_BCST(rec(c, i), x, sum[c])
				continue
			}
			y := spread32(rec(c, i))
			switch {
			case signed:
				VPSIGNB(x, y, y)
				VPMADDUBSW(y, mag, y)
				if empty {
					VPMADDWD(ones, y, sum[c])
				} else {
					VPMADDWD(ones, y, y)
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
	if vnni {
		for c := range n {
			if t.offset == 0 {
				VPXOR(sum[c], sum[c], sum[c])
				continue
			}
			VPBROADCASTD(rec(c, rec32Pairs), sum[c]) // times -8
			VPMADDWD(lanes(uint32(t.offset/8)*0x00010001), sum[c], sum[c])
		}
	}

	qs := t.at(len(t.panel) - 1)
	if t.name == "Q8_0" {
		for v := range 8 {
			x := load(Mem{Base: w, Disp: qs + 32*v})
			if vnni {
				VPXOR(bytes(128), x, x)
			}
			mac(x, 4*v)
		}
	} else {
		var values reg.VecVirtual
		if t.lookup != nil {
			offset := t.offset
			if signed {
				offset = 0
			}
			values = load(table(*t.lookup, offset))
		}
		for g := range 4 {
			for h := range 2 {
				x := load(Mem{Base: w, Disp: qs + 32*g})
				if h == 1 {
					VPSRLW(Imm(4), x, x)
				}
				VPAND(nibble, x, x)
				if t.lookup != nil {
					VPSHUFB(x, values, x)
				}
				if t.fifths {
					v := 4*h + g // whose fifth bits are bit v of each byte
					bit := load(Mem{Base: w, Disp: qs - 32})
					if v < 4 {
						VPSLLW(Imm(uint64(4-v)), bit, bit)
					} else if v > 4 {
						VPSRLW(Imm(uint64(v-4)), bit, bit)
					}
					VPAND(bytes(16), bit, bit)
					VPOR(bit, x, x)
				}
				mac(x, 16*h+4*g)
			}
			if g == 1 && t.fifths && t.minimum && !vnni {
				flush() // 16 products times 31 times 127 would be too much
			}
		}
	}
	if !signed && !vnni {
		for c := range n {
			if t.offset == 0 {
				continue
			}
			pairs := spread32(rec(c, rec32Pairs)) // times -8
			for range t.offset / 8 {
				VPADDW(pairs, sum16[c], sum16[c])
			}
		}
		flush()
	}

	d := t.scale(w)
	var floor reg.VecVirtual
	if t.minimum {
		floor = halves(Mem{Base: w, Disp: t.at(1)})
	}
	for c := range n {
		VCVTDQ2PS(sum[c], sum[c])
		y := spreadF(rec(c, rec32D))
		VMULPS(d, y, y)
		VMULPS(y, sum[c], sum[c])
		VADDPS(sum[c], acc[c], acc[c])
		if t.minimum {
			y := spreadF(rec(c, rec32DS))
			VMULPS(floor, y, y)
			VADDPS(y, acc[c], acc[c])
		}
	}
	if n < group {
		prefetch(fetch, 0, 8*t.size)
		ADDQ(U32(uint32(8*t.size)), fetch)
	}
	ADDQ(U32(uint32(8*t.size)), w)
	ADDQ(U32(uint32(n*rec32)), a)
	DECQ(nb)
	JNZ(LabelRef("loop"))
	for c := range acc {
		VMOVUPS(acc[c], dst.col(c))
	}
	VZEROUPPER()
	RET()
}

// scale returns the scales of eight rows.
func (t *blockType) scale(w reg.GPVirtual) reg.VecVirtual {
	if t.name != "MXFP4" {
		return halves(Mem{Base: w})
	}
	// 2^(e-128): (e-1)<<23, and the subnormals 1<<(21+e) for e below 2
	e, small, big, is := YMM(), YMM(), YMM(), YMM()
	VPMOVZXBD(Mem{Base: w}, e)
	VMOVDQU(lanes(0x00200000), small)
	VPSLLVD(e, small, small)
	VPADDD(lanes(0xffffffff), e, big)
	VPSLLD(Imm(23), big, big)
	VPCMPGTD(lanes(1), e, is)
	VPBLENDVB(is, big, small, e)
	return e
}
