package main

import (
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

// mul adds to the rows of n columns the products of nb super-blocks. A lane is
// a row.
//
// AVX2: products of bytes are summed in 16-bit lanes within a sub-block, then
// multiplied by the sub-block's scale and summed in 32-bit lanes.
//
// VNNI: the products of a sub-block are summed in 32-bit lanes to begin with.
func (t *superType) mul(n int, wide bool) {
	m := begin(t.name, n, wide, rec256)
	signed := t.signed && !m.wide
	m.hold(t.constants(m)...)
	// The scales of sub-blocks as bytes, unpacked once per super-block:
	// byte i%4 of vector i/4 is that of sub-block i.
	var local Mem
	if t.name != "Q6_K" {
		local = AllocLocal(4 * 64)
	}
	scales := func(i int) reg.VecVirtual {
		if t.name == "Q6_K" {
			return m.load(t.at(1) + 32*i)
		}
		return m.whole(local.Offset(64 * i))
	}

	Label("loop")
	for i, s := range t.unpackScales(m) {
		m.move(s, local.Offset(64*i))
	}
	sum := m.vecs()
	empty := true
	for sub := range 256 / t.width {
		scale := t.scale(m, scales(sub/4), sub%4)
		part := m.vecs()
		emptyPart := true
		flush := func() {
			for c := range n {
				p := part[c]
				if empty {
					p = sum[c]
				}
				if m.wide {
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
		if m.wide {
			t.offsets(m, part, sub)
		}
		for i := sub * t.width; i < (sub+1)*t.width; i += 4 {
			x := t.weights(m, i)
			mag := x
			if signed {
				mag = YMM()
				VPABSB(x, mag)
			}
			for c := range n {
				if m.wide {
					VPDPBUSD_BCST(m.rec(c, i), x, part[c])
					continue
				}
				y := m.spread32(m.rec(c, i))
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
			if signed || t.half && !m.wide && i%32 == 12 {
				flush()
			}
		}
		if t.name == "Q6_K" && !m.wide {
			for c := range n {
				VPADDW(m.spread32(m.rec(c, rec256Pairs+4*sub)), part[c], part[c])
			}
		}
		if !emptyPart {
			flush()
		}
		step := 8 * t.size * t.width / 256
		m.ahead(sub*step, step)
	}
	t.finish(m, scales, sum)
	m.next(8 * t.size)
	VZEROUPPER()
	RET()
}

// constants returns those that each vector of weights needs.
func (t *superType) constants(m *machine) []Mem {
	switch t.name {
	case "Q2_K":
		return []Mem{bytes(3)}
	case "Q3_K":
		return []Mem{bytes(3), bytes(4)}
	case "Q4_K":
		return []Mem{bytes(15)}
	case "Q5_K":
		return []Mem{bytes(15), bytes(16)}
	case "Q6_K":
		return []Mem{bytes(15), bytes(48)}
	}
	offset := 0 // IQ4_XS
	if m.wide {
		offset = 128
	}
	return []Mem{bytes(15), table(iq4, offset)}
}

// scale returns byte i of each lane of scales, as two 16-bit lanes, or wide as
// one of 32 bits.
func (t *superType) scale(m *machine, scales reg.VecVirtual, i int) reg.VecVirtual {
	switch {
	case t.signedS && m.wide:
		VPSHUFB(pick(-1, -1, -1, i), scales, scales)
		VPSRAD(Imm(24), scales, scales)
	case t.signedS:
		VPSHUFB(pick(-1, i, -1, i), scales, scales)
		VPSRAW(Imm(8), scales, scales)
	case m.wide:
		VPSHUFB(pick(i, -1, -1, -1), scales, scales)
	default:
		VPSHUFB(pick(i, -1, i, -1), scales, scales)
	}
	return scales
}

// offsets sets 32-bit sums of a sub-block to what takes back the offset of its
// unsigned weights.
func (t *superType) offsets(m *machine, sum []reg.VecVirtual, sub int) {
	for c := range sum {
		switch t.name {
		case "Q6_K": // 32
			VPBROADCASTD(m.rec(c, rec256Pairs+4*sub), sum[c]) // times -32
			VPMADDWD(words(1), sum[c], sum[c])
		case "IQ4_XS": // 128
			y := m.spread32(m.rec(c, rec256Pairs+8*sub+4))
			VPBROADCASTD(m.rec(c, rec256Pairs+8*sub), sum[c])
			VPMADDWD(words(4), y, y)
			VPMADDWD(words(4), sum[c], sum[c])
			VPADDD(y, sum[c], sum[c])
		default:
			VPSUBD(sum[c], sum[c], sum[c]) // which avo, unlike VPXORD, knows to need no input
		}
	}
}

// weights returns weights i to i+3 of the rows. Those of IQ4_XS have 8 bits;
// wide they are 128 above themselves, and so unsigned.
func (t *superType) weights(m *machine, i int) reg.VecVirtual {
	qs := t.at(len(t.panel) - 1)
	g := 32 * (i % 32 / 4) // vector of 32 values
	var x reg.VecVirtual
	switch t.name {
	case "Q2_K":
		x = m.bits(m.load(qs+i/128*256+g), i/32%4*2, 0, 3)
	case "Q3_K":
		x = m.bits(m.load(qs+i/128*256+g), i/32%4*2, 0, 3)
		m.or(m.bits(m.load(t.at(2)+g), i/32, 2, 4), x, x)
	case "Q4_K":
		x = m.bits(m.load(qs+i/64*256+g), i/32%2*4, 0, 15)
	case "Q5_K":
		x = m.bits(m.load(qs+i/64*256+g), i/32%2*4, 0, 15)
		m.or(m.bits(m.load(t.at(3)+g), i/32, 4, 16), x, x)
	case "Q6_K":
		x = m.bits(m.load(qs+i/128*512+i/32%2*256+g), i/64%2*4, 0, 15)
		m.or(m.bits(m.load(t.at(2)+i/128*256+g), i/32%4*2, 4, 48), x, x)
	case "IQ4_XS":
		offset := 0
		if m.wide {
			offset = 128
		}
		q := m.bits(m.load(qs+i/32*128+g%128), i/16%2*4, 0, 15)
		x = m.vec()
		VPSHUFB(q, m.held[table(iq4, offset).Symbol.Name], x)
	}
	return x
}

// unpackScales returns the scales of a super-block as bytes, four of each row
// in a vector.
func (t *superType) unpackScales(m *machine) (scales []reg.VecVirtual) {
	switch t.name {
	case "Q2_K":
		for i := range 4 {
			scales = append(scales, m.bits(m.load(t.at(2)+32*i), 0, 0, 15))
		}
	case "Q3_K":
		low := []reg.VecVirtual{m.load(t.at(1)), m.load(t.at(1) + 32)}
		top := m.load(t.at(1) + 64)
		for i := range 4 {
			s := m.bits(low[i%2], i/2*4, 0, 15)
			m.or(m.bits(top, 2*i, 4, 48), s, s)
			VPSUBB(m.whole(bytes(32)), s, s)
			scales = append(scales, s)
		}
	case "Q4_K", "Q5_K":
		a, c := m.load(t.at(2)), m.load(t.at(2)+64)
		s := m.bits(c, 0, 0, 15)
		m.or(m.bits(a, 6, 4, 48), s, s)
		scales = append(scales, m.bits(a, 0, 0, 63), s)
	case "IQ4_XS":
		// The low halves of scales 2i and 2i+1 are in byte i; the upper two
		// bits of all eight are 16 bits, those of scale i at bit 2i.
		low, top := m.load(t.at(2)), m.vec()
		VPMOVZXWD(m.load16(t.at(1)), top)
		VPSHUFB(pick(0, 0, 1, 1), top, top)
		var s [2]reg.VecVirtual // of even and odd sub-blocks
		for i := range s {
			s[i] = m.bits(low, 4*i, 0, 15)
			// From bits 2i of bytes 0 and 2 and bits 4+2i of bytes 1 and 3.
			for _, from := range []struct {
				pos  int
				mask uint32
			}{{2 * i, 0x00300030}, {4 + 2*i, 0x30003000}} {
				h := m.vec()
				switch {
				case from.pos < 4:
					VPSLLW(Imm(uint64(4-from.pos)), top, h)
					m.and(lanes(from.mask), h, h)
				case from.pos > 4:
					VPSRLW(Imm(uint64(from.pos-4)), top, h)
					m.and(lanes(from.mask), h, h)
				default:
					m.and(lanes(from.mask), top, h)
				}
				m.or(h, s[i], s[i])
			}
			VPSUBB(m.whole(bytes(32)), s[i], s[i])
		}
		// A lane of lo holds the scales of one of two rows, in hi of the
		// other two.
		lo, hi := m.vec(), m.vec()
		VPUNPCKLBW(s[1], s[0], lo)
		VPUNPCKHBW(s[1], s[0], hi)
		VSHUFPS(Imm(0x88), hi, lo, s[0])
		VSHUFPS(Imm(0xdd), hi, lo, s[1])
		scales = s[:]
	}
	return scales
}

// pairwise sets out to the sums over pairs of sub-blocks of 16-bit factors, two in
// a lane, times the sums of activations at off.
func (m *machine) pairwise(out []reg.VecVirtual, pairs int, factors func(i int) reg.VecVirtual, off int) []reg.VecVirtual {
	for i := range pairs {
		f := factors(i)
		for c := range out {
			y := m.spread32(m.rec(c, off+4*i))
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

// finish takes the minimums or offsets of a super-block into account and adds
// its products to the destination.
func (t *superType) finish(m *machine, scales func(i int) reg.VecVirtual, sum []reg.VecVirtual) {
	var floors []reg.VecVirtual
	switch t.name {
	case "Q2_K":
		floors = m.pairwise(m.vecs(), 8, func(i int) reg.VecVirtual {
			f := m.bits(m.load(t.at(2)+i/2*32), 4, 0, 15)
			VPSHUFB(pick(i%2*2, -1, i%2*2+1, -1), f, f)
			return f
		}, rec256S16)
	case "Q4_K", "Q5_K":
		floors = m.pairwise(m.vecs(), 4, func(i int) reg.VecVirtual {
			var f reg.VecVirtual
			b := m.load(t.at(2) + 32)
			if i < 2 {
				f = m.bits(b, 0, 0, 63)
			} else {
				f = m.bits(m.load(t.at(2)+64), 4, 0, 15)
				m.or(m.bits(b, 6, 4, 48), f, f)
			}
			VPSHUFB(pick(i%2*2, -1, i%2*2+1, -1), f, f)
			return f
		}, rec256S32)
	case "Q3_K": // q was 4 too large
		over := m.pairwise(m.vecs(), 8, func(i int) reg.VecVirtual {
			s := scales(i / 2)
			VPSHUFB(pick(-1, i%2*2, -1, i%2*2+1), s, s)
			VPSRAW(Imm(8), s, s)
			return s
		}, rec256S16)
		for c := range over {
			VPSLLD(Imm(2), over[c], over[c])
			VPSUBD(over[c], sum[c], sum[c])
		}
	}
	d := m.halves(0)
	var dmin reg.VecVirtual
	if floors != nil {
		dmin = m.halves(t.at(1))
	}
	for c := range sum {
		VCVTDQ2PS(sum[c], sum[c])
		VMULPS(d, sum[c], sum[c])
		if floors != nil {
			VCVTDQ2PS(floors[c], floors[c])
			VMULPS(dmin, floors[c], floors[c])
			VSUBPS(floors[c], sum[c], sum[c])
		}
		VMULPS(m.spreadF(m.rec(c, rec256D)), sum[c], sum[c])
		VADDPS(m.col(c), sum[c], sum[c])
		VMOVUPS(sum[c], m.col(c))
	}
}
