package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A machine hides from the kernels how wide vectors are. With AVX2 a vector is
// a row of lanes from one panel; wide, with AVX-512 and VNNI, it has the lanes
// of two panels, which makes sixteen rows.
type machine struct {
	wide      bool
	n         int             // columns
	panels    []reg.GPVirtual // one or two
	fetch     []reg.GPVirtual // what to bring into the cache, for each panel
	recs      []reg.GPVirtual // of each group
	recSize   int
	dst       []reg.GPVirtual // of each group
	ldd, ldd3 reg.GPVirtual   // bytes
	nb        reg.GPVirtual
	held      map[string]reg.VecVirtual // constants in registers, by name
}

// begin starts a kernel.
func begin(name string, n int, wide bool, recSize int) *machine {
	m := &machine{wide: wide, n: n, recSize: recSize}
	if m.wide {
		TEXT(fmt.Sprintf("mul%sx%dVNNI", name, n), NOSPLIT, "func(nb int, panels *byte, stride int, fetch, fetch2 uintptr, recs, recs2 *byte, dst *float32, ldd int)")
	} else {
		TEXT(fmt.Sprintf("mul%sx%d", name, n), NOSPLIT, "func(nb int, panel *byte, fetch uintptr, recs *byte, dst *float32, ldd int)")
	}
	Pragma("noescape")
	m.nb = param("nb")
	m.recs = append(m.recs, param("recs"))
	m.dst = append(m.dst, param("dst"))
	if n > 1 {
		m.ldd = param("ldd")
		SHLQ(Imm(2), m.ldd)
	}
	if n > 3 {
		m.ldd3 = GP64()
		LEAQ(Mem{Base: m.ldd, Index: m.ldd, Scale: 2}, m.ldd3)
	}
	if n > group {
		m.recs = append(m.recs, param("recs2"))
		m.dst = append(m.dst, GP64())
		LEAQ(Mem{Base: m.dst[0], Index: m.ldd, Scale: 4}, m.dst[1])
	}
	if wide {
		second := param("stride")
		m.panels = append(m.panels, param("panels"), second)
		ADDQ(m.panels[0], second)
		m.fetch = append(m.fetch, param("fetch"), param("fetch2"))
	} else {
		m.panels = append(m.panels, param("panel"))
		m.fetch = append(m.fetch, param("fetch"))
	}
	return m
}

// hold keeps constants in registers: they are loads that a kernel can ill
// afford, where there is room for them.
func (m *machine) hold(constants ...Mem) {
	m.held = map[string]reg.VecVirtual{}
	for _, c := range constants {
		m.held[c.Symbol.Name] = m.whole(c)
	}
}

// constant returns a constant as a register or memory.
func (m *machine) constant(c Mem) Op {
	if v, ok := m.held[c.Symbol.Name]; ok {
		return v
	}
	return c
}

// next goes to the next block of a panel, size bytes on, and ends the loop.
func (m *machine) next(size int) {
	for _, p := range append(m.fetch, m.panels...) {
		ADDQ(U32(uint32(size)), p)
	}
	for _, p := range m.recs {
		ADDQ(U32(uint32(min(m.n, group)*m.recSize)), p)
	}
	DECQ(m.nb)
	JNZ(LabelRef("loop"))
}

// ahead fetches the cache lines of size bytes at off.
func (m *machine) ahead(off, size int) {
	for _, p := range m.fetch {
		prefetch(p, off, size)
	}
}

// col returns where the rows of column c are.
func (m *machine) col(c int) Mem {
	base := m.dst[c/group]
	switch c % group {
	case 0:
		return Mem{Base: base}
	case 1, 2:
		return Mem{Base: base, Index: m.ldd, Scale: uint8(c % group)}
	}
	return Mem{Base: base, Index: m.ldd3, Scale: 1}
}

// rec returns where off is in the record of column c.
func (m *machine) rec(c, off int) Mem {
	return Mem{Base: m.recs[c/group], Disp: c%group*m.recSize + off}
}

func (m *machine) vec() reg.VecVirtual {
	if m.wide {
		return ZMM()
	}
	return YMM()
}

func (m *machine) vecs() []reg.VecVirtual {
	v := make([]reg.VecVirtual, m.n)
	for i := range v {
		v[i] = m.vec()
	}
	return v
}

// load loads 32 bytes of each panel.
func (m *machine) load(off int) reg.VecVirtual {
	v := m.vec()
	if m.wide {
		VBROADCASTI64X4(Mem{Base: m.panels[0], Disp: off}, v)
		VINSERTI64X4(Imm(1), Mem{Base: m.panels[1], Disp: off}, v, v)
	} else {
		VMOVDQU(Mem{Base: m.panels[0], Disp: off}, v)
	}
	return v
}

// load16 loads 16 bytes of each panel, for an instruction that widens them.
func (m *machine) load16(off int) Op {
	if !m.wide {
		return Mem{Base: m.panels[0], Disp: off}
	}
	v := YMM()
	VBROADCASTI32X4(Mem{Base: m.panels[0], Disp: off}, v)
	VINSERTI32X4(Imm(1), Mem{Base: m.panels[1], Disp: off}, v, v)
	return v
}

// load8 loads 8 bytes of each panel, for an instruction that widens them.
func (m *machine) load8(off int) Op {
	if !m.wide {
		return Mem{Base: m.panels[0], Disp: off}
	}
	v := XMM()
	VMOVQ(Mem{Base: m.panels[0], Disp: off}, v)
	VPINSRQ(Imm(1), Mem{Base: m.panels[1], Disp: off}, v, v)
	return v
}

// halves loads a binary16 number of each row.
func (m *machine) halves(off int) reg.VecVirtual {
	v := m.vec()
	VCVTPH2PS(m.load16(off), v)
	return v
}

// whole loads a vector.
func (m *machine) whole(from Mem) reg.VecVirtual {
	v := m.vec()
	m.move(from, v)
	return v
}

func (m *machine) move(from, to Op) {
	if m.wide {
		VMOVDQU64(from, to)
	} else {
		VMOVDQU(from, to)
	}
}

func (m *machine) spread32(from Mem) reg.VecVirtual { v := m.vec(); VPBROADCASTD(from, v); return v }
func (m *machine) spreadF(from Mem) reg.VecVirtual  { v := m.vec(); VBROADCASTSS(from, v); return v }

func (m *machine) and(x Op, y, to reg.VecVirtual) {
	if m.wide {
		VPANDD(x, y, to)
	} else {
		VPAND(x, y, to)
	}
}

func (m *machine) or(x Op, y, to reg.VecVirtual) {
	if m.wide {
		VPORD(x, y, to)
	} else {
		VPOR(x, y, to)
	}
}

func (m *machine) xor(x Op, y, to reg.VecVirtual) {
	if m.wide {
		VPXORD(x, y, to)
	} else {
		VPXOR(x, y, to)
	}
}

// bits returns a copy of v whose bits at pos of each byte are moved to bit to,
// and cut out by mask.
func (m *machine) bits(v reg.VecVirtual, pos, to int, mask byte) reg.VecVirtual {
	out := m.vec()
	switch {
	case pos > to:
		VPSRLW(Imm(uint64(pos-to)), v, out)
	case pos < to:
		VPSLLW(Imm(uint64(to-pos)), v, out)
	default:
		m.and(m.constant(bytes(mask)), v, out)
		return out
	}
	m.and(m.constant(bytes(mask)), out, out)
	return out
}
