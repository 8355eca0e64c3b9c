package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A superType is a type with super-blocks of 256.
type superType struct {
	format
	width   int  // values of a sub-block
	half    bool // sums of a sub-block are cut in two, for they pass 16 bits
	signed  bool // weights are too large to be made unsigned
	signedS bool // scales are signed
}

var superTypes = []superType{
	{format: format{"Q2_K", 84, []field{{80, 2, 2}, {82, 2, 2}, {0, 16, 4}, {16, 64, 4}}, false}, width: 16},
	{format: format{"Q3_K", 110, []field{{108, 2, 2}, {96, 12, 4}, {0, 32, 4}, {32, 64, 4}}, false}, width: 16, signedS: true},
	{format: format{"Q4_K", 144, []field{{0, 2, 2}, {2, 2, 2}, {4, 12, 4}, {16, 128, 4}}, false}, width: 32},
	{format: format{"Q5_K", 176, []field{{0, 2, 2}, {2, 2, 2}, {4, 12, 4}, {16, 32, 4}, {48, 128, 4}}, false}, width: 32, half: true},
	{format: format{"Q6_K", 210, []field{{208, 2, 2}, {192, 16, 4}, {128, 64, 4}, {0, 128, 4}}, false}, width: 16, signedS: true},
	{format: format{"IQ4_XS", 136, []field{{0, 2, 2}, {2, 2, 2}, {4, 4, 4}, {8, 128, 4}}, false}, width: 32, signed: true, signedS: true},
}

// mul adds to eight rows of n columns the products of nb super-blocks of a
// panel. A lane is a row.
//
// AVX2: products of bytes are summed in 16-bit lanes within a sub-block, then
// multiplied by the sub-block's scale and summed in 32-bit lanes.
//
// VNNI: the products of a sub-block are summed in 32-bit lanes to begin with.
func (t *superType) mul(isa string, n int) {
	TEXT(fmt.Sprintf("mul%sx%d%s", t.name, n, isa), NOSPLIT,
		"func(nb int, panel *byte, fetch uintptr, recs *byte, dst *float32, ldd int)")
	Pragma("noescape")
	vnni := isa == "VNNI"
	signed := t.signed && !vnni
	nb, w, fetch, a := param("nb"), param("panel"), param("fetch"), param("recs")
	dst := destination(n)
	// The scales of sub-blocks as bytes, unpacked once per super-block:
	// byte i%4 of vector i/4 is that of sub-block i.
	var scales Mem
	switch t.name {
	case "Q6_K":
		scales = Mem{Base: w, Disp: t.at(1)}
	default:
		scales = AllocLocal(128)
	}

	Label("loop")
	rec := func(c, off int) Mem { return Mem{Base: a, Disp: c*rec256 + off} }
	t.unpackScales(w, scales)
	sum := ymms(n)
	empty := true
	for sub := range 256 / t.width {
		scale := t.scale(scales, sub, vnni)
		part := ymms(n) // of 16-bit lanes, or 32-bit ones for VNNI
		emptyPart := true
		flush := func() {
			for c := range n {
				p := part[c]
				if empty {
					p = sum[c]
				}
				if vnni {
					VPMULLD(scale, part[c], p)
				} else {
					VPMADDWD(scale, part[c], p)
				}
				if !empty {
					VPADDD(p, sum[c], sum[c])
				}
			}
			emptyPart, empty = true, false
		}
		if vnni {
			t.offsets(part, rec, sub)
		}
		for g := range t.width / 4 {
			x := t.weights(w, sub*t.width+4*g, vnni)
			mag := x
			if signed {
				mag = YMM()
				VPABSB(x, mag)
			}
			for c := range n {
				if vnni {
					VPDPBUSD_BCST(rec(c, sub*t.width+4*g), x, part[c])
					continue
				}
				y := spread32(rec(c, sub*t.width+4*g))
				if signed {
					VPSIGNB(x, y, y)
				}
				if emptyPart {
					VPMADDUBSW(y, mag, part[c])
				} else {
					VPMADDUBSW(y, mag, y)
					VPADDW(y, part[c], part[c])
				}
			}
			emptyPart = false
			if !vnni && (t.signed || t.half && g == 3) {
				flush()
			}
		}
		if t.name == "Q6_K" && !vnni {
			for c := range n {
				pairs := spread32(rec(c, rec256Pairs+4*sub))
				VPADDW(pairs, part[c], part[c])
			}
		}
		if !emptyPart {
			flush()
		}
		if n < group {
			step := 8 * t.size * t.width / 256
			prefetch(fetch, sub*step, step)
		}
	}
	t.finish(w, scales, n, rec, sum, dst)
	if n < group {
		ADDQ(U32(uint32(8*t.size)), fetch)
	}
	ADDQ(U32(uint32(8*t.size)), w)
	ADDQ(U32(uint32(n*rec256)), a)
	DECQ(nb)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// scale returns the scale of a sub-block, as 16-bit lanes or wide as 32-bit ones.
func (t *superType) scale(scales Mem, sub int, wide bool) reg.VecVirtual {
	s, i := YMM(), sub%4
	VMOVDQU(scales.Offset(sub/4*32), s)
	switch {
	case t.signedS && wide:
		VPSHUFB(pick(-1, -1, -1, i), s, s)
		VPSRAD(Imm(24), s, s)
	case t.signedS:
		VPSHUFB(pick(-1, i, -1, i), s, s)
		VPSRAW(Imm(8), s, s)
	case wide:
		VPSHUFB(pick(i, -1, -1, -1), s, s)
	default:
		VPSHUFB(pick(i, -1, i, -1), s, s)
	}
	return s
}

// offsets sets 32-bit sums of a sub-block to what takes back the offset of its
// unsigned weights.
func (t *superType) offsets(sum []reg.VecVirtual, rec func(c, off int) Mem, sub int) {
	for c := range sum {
		switch t.name {
		case "Q6_K": // 32
			VPBROADCASTD(rec(c, rec256Pairs+4*sub), sum[c]) // times -32
			VPMADDWD(lanes(0x00010001), sum[c], sum[c])
		case "IQ4_XS": // 128
			y := spread32(rec(c, rec256Pairs+8*sub+4))
			VPMADDWD(lanes(0x00040004), y, y)
			VPBROADCASTD(rec(c, rec256Pairs+8*sub), sum[c])
			VPMADDWD(lanes(0x00040004), sum[c], sum[c])
			VPADDD(y, sum[c], sum[c])
		default:
			VPXOR(sum[c], sum[c], sum[c])
		}
	}
}

// weights returns the weights i to i+3 of eight rows. Values that have 8 bits
// are unsigned on demand, 128 above themselves.
func (t *superType) weights(w reg.GPVirtual, i int, unsigned bool) reg.VecVirtual {
	qs := t.at(len(t.panel) - 1)
	x := YMM()
	// bits returns the bits of field f that bits of v become: those at pos
	// of each byte move to bit to.
	bits := func(off, pos, to int, mask byte) reg.VecVirtual {
		v := load(Mem{Base: w, Disp: off})
		if pos > to {
			VPSRLW(Imm(uint64(pos-to)), v, v)
		} else if pos < to {
			VPSLLW(Imm(uint64(to-pos)), v, v)
		}
		VPAND(bytes(mask), v, v)
		return v
	}
	g := i % 32 / 4 // vector of 32 values
	switch t.name {
	case "Q2_K":
		return bits(qs+i/128*256+32*g, i/32%4*2, 0, 3)
	case "Q3_K":
		x = bits(qs+i/128*256+32*g, i/32%4*2, 0, 3)
		VPOR(bits(t.at(2)+32*g, i/32, 2, 4), x, x)
	case "Q4_K":
		return bits(qs+i/64*256+32*g, i/32%2*4, 0, 15)
	case "Q5_K":
		x = bits(qs+i/64*256+32*g, i/32%2*4, 0, 15)
		VPOR(bits(t.at(3)+32*g, i/32, 4, 16), x, x)
	case "Q6_K":
		x = bits(qs+i/128*512+i/32%2*256+32*g, i/64%2*4, 0, 15)
		VPOR(bits(t.at(2)+i/128*256+32*g, i/32%4*2, 4, 48), x, x)
	case "IQ4_XS":
		q := bits(qs+i/32*128+32*(g%4), i/16%2*4, 0, 15)
		offset := 0
		if unsigned {
			offset = 128
		}
		VMOVDQU(table(iq4, offset), x)
		VPSHUFB(q, x, x)
	}
	return x
}

// high returns (v >> shift) & mask.
func high(v reg.VecVirtual, shift int, mask byte) reg.VecVirtual {
	h := YMM()
	if shift < 0 {
		VPSLLW(Imm(uint64(-shift)), v, h)
		VPAND(bytes(mask), h, h)
	} else if shift > 0 {
		VPSRLW(Imm(uint64(shift)), v, h)
		VPAND(bytes(mask), h, h)
	} else {
		VPAND(bytes(mask), v, h)
	}
	return h
}

// unpackScales writes the scales of a super-block.
func (t *superType) unpackScales(w reg.GPVirtual, scales Mem) {
	switch t.name {
	case "Q2_K":
		for i := range 4 {
			s := load(Mem{Base: w, Disp: t.at(2) + 32*i})
			VMOVDQU(high(s, 0, 15), scales.Offset(32*i))
		}
	case "Q3_K":
		low := []reg.VecVirtual{load(Mem{Base: w, Disp: t.at(1)}), load(Mem{Base: w, Disp: t.at(1) + 32})}
		top := load(Mem{Base: w, Disp: t.at(1) + 64})
		for i := range 4 {
			s := high(low[i%2], i/2*4, 15)
			VPOR(high(top, 2*i-4, 48), s, s)
			VPSUBB(bytes(32), s, s)
			VMOVDQU(s, scales.Offset(32*i))
		}
	case "Q4_K", "Q5_K":
		a, c := load(Mem{Base: w, Disp: t.at(2)}), load(Mem{Base: w, Disp: t.at(2) + 64})
		VMOVDQU(high(a, 0, 63), scales)
		s := high(c, 0, 15)
		VPOR(high(a, 2, 48), s, s)
		VMOVDQU(s, scales.Offset(32))
	case "IQ4_XS":
		// The low halves of scales 2i and 2i+1 are in byte i; the upper two
		// bits of all eight are 16 bits, those of scales 2i in byte i/2.
		low, top := load(Mem{Base: w, Disp: t.at(2)}), YMM()
		VPMOVZXWD(Mem{Base: w, Disp: t.at(1)}, top)
		VPSHUFB(pick(0, 0, 1, 1), top, top)
		even, odd := high(low, 0, 15), high(low, 4, 15)
		for i, s := range []reg.VecVirtual{even, odd} {
			// bits 2i of bytes 0 and 2, bits 4+2i of bytes 1 and 3, to bit 4
			h := YMM()
			if i == 0 {
				VPSLLW(Imm(4), top, h)
				VPAND(lanes(0x00300030), h, h)
				VPOR(h, s, s)
				VPAND(lanes(0x30003000), top, h)
			} else {
				VPSLLW(Imm(2), top, h)
				VPAND(lanes(0x00300030), h, h)
				VPOR(h, s, s)
				VPSRLW(Imm(2), top, h)
				VPAND(lanes(0x30003000), h, h)
			}
			VPOR(h, s, s)
			VPSUBB(bytes(32), s, s)
		}
		// scales 0 to 3 are e0 o0 e1 o1
		lo, hi := YMM(), YMM()
		VPUNPCKLBW(odd, even, lo) // lanes 0, 1: scales 0 to 7 each
		VPUNPCKHBW(odd, even, hi) // lanes 2, 3
		VSHUFPS(Imm(0x88), hi, lo, even)
		VSHUFPS(Imm(0xdd), hi, lo, odd)
		VMOVDQU(even, scales)
		VMOVDQU(odd, scales.Offset(32))
	}
}

// finish takes the minimums or offsets of a super-block into account and adds
// its products to the destination.
func (t *superType) finish(w reg.GPVirtual, scales Mem, n int, rec func(c, off int) Mem, sum []reg.VecVirtual, dst columns) {
	// pairwise sets out[c] to the sums over pairs of sub-blocks of the
	// 16-bit factors, two in a lane, times the sums of activations at off.
	pairwise := func(pairs int, factors func(i int) reg.VecVirtual, off int) []reg.VecVirtual {
		out := ymms(n)
		for i := range pairs {
			f := factors(i)
			for c := range n {
				y := spread32(rec(c, off+4*i))
				if i == 0 {
					VPMADDWD(f, y, out[c])
				} else {
					VPMADDWD(f, y, y)
					VPADDD(y, out[c], out[c])
				}
			}
		}
		return out
	}
	var floors []reg.VecVirtual
	switch t.name {
	case "Q2_K":
		floors = pairwise(8, func(i int) reg.VecVirtual {
			m := high(load(Mem{Base: w, Disp: t.at(2) + i/2*32}), 4, 15)
			VPSHUFB(pick(i%2*2, -1, i%2*2+1, -1), m, m)
			return m
		}, rec256S16)
	case "Q4_K", "Q5_K":
		floors = pairwise(4, func(i int) reg.VecVirtual {
			var m reg.VecVirtual
			b := load(Mem{Base: w, Disp: t.at(2) + 32})
			if i < 2 {
				m = high(b, 0, 63)
			} else {
				m = high(load(Mem{Base: w, Disp: t.at(2) + 64}), 4, 15)
				VPOR(high(b, 2, 48), m, m)
			}
			VPSHUFB(pick(i%2*2, -1, i%2*2+1, -1), m, m)
			return m
		}, rec256S32)
	case "Q3_K": // q was 4 too large
		over := pairwise(8, func(i int) reg.VecVirtual {
			s := load(scales.Offset(i / 2 * 32))
			VPSHUFB(pick(-1, i%2*2, -1, i%2*2+1), s, s)
			VPSRAW(Imm(8), s, s)
			return s
		}, rec256S16)
		for c := range n {
			VPSLLD(Imm(2), over[c], over[c])
			VPSUBD(over[c], sum[c], sum[c])
		}
	}
	d := halves(Mem{Base: w})
	var dmin reg.VecVirtual
	if floors != nil {
		dmin = halves(Mem{Base: w, Disp: t.at(1)})
	}
	for c := range n {
		VCVTDQ2PS(sum[c], sum[c])
		VMULPS(d, sum[c], sum[c])
		if floors != nil {
			VCVTDQ2PS(floors[c], floors[c])
			VMULPS(dmin, floors[c], floors[c])
			VSUBPS(floors[c], sum[c], sum[c])
		}
		y := spreadF(rec(c, rec256D))
		VMULPS(y, sum[c], sum[c])
		VADDPS(dst.col(c), sum[c], sum[c])
		VMOVUPS(sum[c], dst.col(c))
	}
}
