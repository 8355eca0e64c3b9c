package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// interleave makes the blocks of a panel from eight rows that are stride bytes
// apart.
func (f *format) interleave() {
	TEXT("interleave"+f.name, NOSPLIT, "func(nb int, dst, src *byte, stride int)")
	Pragma("noescape")
	Doc("interleave" + f.name + " is putIn for eight rows of nb blocks.")
	nb, dst, src, stride := param("nb"), param("dst"), param("src"), param("stride")
	stride3, src4 := GP64(), GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	LEAQ(Mem{Base: src, Index: stride, Scale: 4}, src4)
	row := func(r, off int) Mem { return eightRows(src, src4, stride, stride3, r, off) }
	Label("loop")
	for i, p := range f.panel {
		out := Mem{Base: dst, Disp: f.at(i)}
		switch {
		case p.unit < 4:
			for u := 0; u < p.size; u += p.unit {
				for r := range 8 {
					t := GP32()
					if p.unit == 1 {
						MOVBLZX(row(r, p.off+u), t)
						MOVB(t.As8(), out.Offset(8*u+r))
					} else {
						MOVWLZX(row(r, p.off+u), t)
						MOVW(t.As16(), out.Offset(8*u+2*r))
					}
				}
			}
		case p.size == 4:
			v := eightWords(row, p.off)
			if f.fifths {
				toVectors(v)
			}
			VMOVDQU(v, out)
		default:
			for o := 0; o < p.size; o += 16 {
				f.transpose(row, p.off+o, out.Offset(8*o), min(4, (p.size-o)/4))
			}
		}
	}
	ADDQ(U32(uint32(8*f.size)), dst)
	ADDQ(U32(uint32(f.size)), src)
	ADDQ(U32(uint32(f.size)), src4)
	DECQ(nb)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// eightRows returns where off is in row r of eight, given where rows 0 and 4 are
// and once and three times the distance between rows.
func eightRows(row0, row4, stride, stride3 reg.GPVirtual, r, off int) Mem {
	m := Mem{Base: row0, Disp: off}
	if r >= 4 {
		m.Base = row4
	}
	switch r % 4 {
	case 1, 2:
		m.Index, m.Scale = stride, uint8(r%4)
	case 3:
		m.Index, m.Scale = stride3, 1
	}
	return m
}

// eightWords returns the 32 bits at off of each row.
func eightWords(row func(r, off int) Mem, off int) reg.VecVirtual {
	v, hi := YMM(), XMM()
	VPXOR(v, v, v)
	for h, x := range []reg.Register{v.AsX(), hi} {
		VMOVD(row(4*h, off), x)
		for r := 1; r < 4; r++ {
			VPINSRD(Imm(uint64(r)), row(4*h+r, off), x, x)
		}
	}
	VINSERTI128(Imm(1), hi, v, v)
	return v
}

// transpose writes n vectors whose lanes are the rows' n 32-bit words at off.
func (f *format) transpose(row func(r, off int) Mem, off int, out Mem, n int) {
	v := f.columns(row, off, n)
	for i := range n {
		VMOVDQU(v[i], out.Offset(32*i))
	}
}

// columns returns n vectors whose lanes are the rows' n 32-bit words at off.
func (f *format) columns(row func(r, off int) Mem, off, n int) []reg.VecVirtual {
	var a [4]reg.VecVirtual
	for r := range a {
		a[r] = YMM()
		if off+16 <= f.size {
			VBROADCASTI128(row(r, off), a[r]) // a plain load that defines all of the register
			VINSERTI128(Imm(1), row(r+4, off), a[r], a[r])
			continue
		}
		// The last block's end may be the end of memory.
		hi := XMM()
		VPXOR(a[r], a[r], a[r])
		VMOVQ(row(r, off), a[r].AsX())
		VPINSRD(Imm(2), row(r, off+8), a[r].AsX(), a[r].AsX())
		VMOVQ(row(r+4, off), hi)
		VPINSRD(Imm(2), row(r+4, off+8), hi, hi)
		VINSERTI128(Imm(1), hi, a[r], a[r])
	}
	t := ymms(4)
	VPUNPCKLDQ(a[1], a[0], t[0])
	VPUNPCKHDQ(a[1], a[0], t[1])
	VPUNPCKLDQ(a[3], a[2], t[2])
	VPUNPCKHDQ(a[3], a[2], t[3])
	v := a
	VPUNPCKLQDQ(t[2], t[0], v[0])
	VPUNPCKHQDQ(t[2], t[0], v[1])
	VPUNPCKLQDQ(t[3], t[1], v[2])
	if n > 3 {
		VPUNPCKHQDQ(t[3], t[1], v[3])
	}
	return v[:n]
}

// toVectors is the package's toVectors on eight lanes. It moves bit 4v+i to
// 8i+v, which turns the five bits of the position by two; each step swaps two
// of the five.
func toVectors(v reg.VecVirtual) {
	// Positions are v2 v1 v0 i1 i0 and become i1 i0 v2 v1 v0.
	for _, s := range []struct{ hi, lo int }{{4, 1}, {3, 0}, {2, 1}, {1, 0}} {
		// Bits at positions with hi clear and lo set change places with
		// those with hi set and lo clear.
		dist := 1<<s.hi - 1<<s.lo
		var mask uint32
		for p := range 32 {
			if p>>s.hi&1 == 0 && p>>s.lo&1 == 1 {
				mask |= 1 << p
			}
		}
		t := YMM()
		VPSRLD(Imm(uint64(dist)), v, t)
		VPXOR(v, t, t)
		VPAND(lanes(mask), t, t)
		VPXOR(t, v, v)
		VPSLLD(Imm(uint64(dist)), t, t)
		VPXOR(t, v, v)
	}
}
