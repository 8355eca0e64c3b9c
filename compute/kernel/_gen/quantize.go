package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantizer writes nb records of blocks of size values, stride bytes apart.
func quantizer(name string, size, offD int) {
	TEXT(name, NOSPLIT, "func(nb int, x *float32, recs *byte, stride int)")
	Pragma("noescape")
	Doc(name + " is " + name[:len(name)-4] + "Generic.")
	nb, x, rec, stride := param("nb"), param("x"), param("recs"), param("stride")
	Label("block")
	// The greatest magnitude: as integers, NaNs are above infinity.
	mag := ymms(2)
	for i := range mag {
		VPXOR(mag[i], mag[i], mag[i])
	}
	abs := YMM()
	VMOVDQU(lanes(0x7fffffff), abs)
	for i := range size / 8 {
		v := YMM()
		VPAND(Mem{Base: x, Disp: 32 * i}, abs, v)
		VPMAXSD(v, mag[i%2], mag[i%2])
	}
	VPMAXSD(mag[1], mag[0], mag[0])
	m, t := XMM(), XMM()
	VEXTRACTI128(Imm(1), mag[0], m)
	VPMAXSD(mag[0].AsX(), m, m)
	VPSHUFD(Imm(0x4e), m, t)
	VPMAXSD(t, m, m)
	VPSHUFD(Imm(0xb1), m, t)
	VPMAXSD(t, m, m)

	// d and its reciprocal; a bad block is all zeros, with d NaN if it holds a
	// value that is not finite, and 0 if d has no reciprocal.
	d, id, bits := XMM(), XMM(), GP32()
	VMOVD(m, bits)
	f127, one := GP32(), GP32()
	MOVL(U32(math.Float32bits(127)), f127)
	MOVL(U32(math.Float32bits(1)), one)
	VMOVD(f127, t)
	VDIVSS(t, m, d)
	VMOVD(one, t)
	VDIVSS(d, t, id)
	zero := XMM()
	VPXOR(zero, zero, zero)
	idBits := GP32()
	VMOVD(id, idBits)
	CMPL(bits, U32(0x7f800000))
	JGE(LabelRef("nan"))
	CMPL(idBits, U32(0x7f800000))
	JGE(LabelRef("zero"))
	scale := YMM()
	VBROADCASTSS(id, scale)
	VMOVSS(d, Mem{Base: rec, Disp: offD})
	for i := 0; i < size; i += 32 {
		// Packing works in halves of registers; the order of the 32-bit words
		// is put right at the end.
		v := ymms(4)
		for j := range v {
			VMULPS(Mem{Base: x, Disp: 4*i + 32*j}, scale, v[j])
			VCVTPS2DQ(v[j], v[j])
		}
		VPACKSSDW(v[1], v[0], v[0])
		VPACKSSDW(v[3], v[2], v[2])
		VPACKSSWB(v[2], v[0], v[0])
		order := YMM()
		VMOVDQU(vector([8]uint32{0, 4, 1, 5, 2, 6, 3, 7}), order)
		VPERMD(v[0], order, v[0])
		VMOVDQU(v[0], Mem{Base: rec, Disp: i})
	}
	Label("sums")
	sums(size, rec)
	ADDQ(U32(uint32(4*size)), x)
	ADDQ(stride, rec)
	DECQ(nb)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()

	Label("nan")
	MOVL(U32(0x7fc00000), Mem{Base: rec, Disp: offD})
	JMP(LabelRef("clear"))
	Label("zero")
	MOVL(U32(0), Mem{Base: rec, Disp: offD})
	Label("clear")
	z := YMM()
	VPXOR(z, z, z)
	for i := 0; i < size; i += 32 {
		VMOVDQU(z, Mem{Base: rec, Disp: i})
	}
	JMP(LabelRef("sums"))
}

// sums writes what a record holds beside q and d.
func sums(size int, rec reg.GPVirtual) {
	ones8, ones := YMM(), YMM()
	VMOVDQU(bytes(1), ones8)
	VMOVDQU(lanes(0x00010001), ones)
	// pairs returns the 16-bit sums of neighbours of 32 values.
	pairs := func(i int) reg.VecVirtual {
		p := YMM()
		VPMADDUBSW(Mem{Base: rec, Disp: i}, ones8, p)
		return p
	}
	if size == 32 {
		p, x, t := pairs(0), XMM(), XMM()
		VEXTRACTI128(Imm(1), p, x)
		VPADDW(p.AsX(), x, x)
		VPSHUFD(Imm(0x4e), x, t)
		VPADDW(t, x, x)
		VPSHUFD(Imm(0xb1), x, t)
		VPADDW(t, x, x)
		VPMADDWD(ones.AsX(), x, t)
		VCVTDQ2PS(t, t)
		VMULSS(Mem{Base: rec, Disp: rec32D}, t, t)
		VMOVSS(t, Mem{Base: rec, Disp: rec32DS})
		VPSLLW(Imm(3), x, x)
		VPXOR(t, t, t)
		VPSUBW(x, t, x)
		VMOVD(x, Mem{Base: rec, Disp: rec32Pairs})
		return
	}
	for i := 0; i < 256; i += 64 {
		// Each 128-bit half of p and q holds the sums of 16 values: four
		// lanes of two 16-bit sums, which are added lane to lane.
		p, q, lo, hi := pairs(i), pairs(i+32), YMM(), YMM()
		VSHUFPS(Imm(0x88), q, p, lo)
		VSHUFPS(Imm(0xdd), q, p, hi)
		VPADDW(hi, lo, lo) // two lanes for sub-block 0, two for 2 | two for 1, two for 3
		VSHUFPS(Imm(0x88), lo, lo, p)
		VSHUFPS(Imm(0xdd), lo, lo, q)
		VPADDW(q, p, p) // 0 2 0 2 | 1 3 1 3
		x := XMM()
		VEXTRACTI128(Imm(1), p, x)
		VPUNPCKLDQ(x, p.AsX(), x) // 0 1 2 3
		s := XMM()
		VPMADDWD(ones.AsX(), x, s)
		VPACKSSDW(s, s, s)
		VMOVQ(s, Mem{Base: rec, Disp: rec256S16 + i/8})
		VPMADDWD(ones.AsX(), s, s)
		VPACKSSDW(s, s, s)
		VMOVD(s, Mem{Base: rec, Disp: rec256S32 + i/16})
		VPSLLW(Imm(5), x, x)
		t := XMM()
		VPXOR(t, t, t)
		VPSUBW(x, t, x)
		VMOVDQU(x, Mem{Base: rec, Disp: rec256Pairs + i/4})
	}
}
