package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// packedColumns is the number of columns of the AVX-512 kernel for packed
// floats: with eight rows their sums take 24 of 32 registers.
const packedColumns = 6

// convert loads eight weights as float32.
func (t floatType) convert(from Mem, to reg.VecVirtual) {
	switch t.name {
	case "F32":
		VMOVUPS(from, to)
	case "F16":
		VCVTPH2PS(from, to)
	case "BF16":
		VPMOVZXWD(from, to)
		VPSLLD(Imm(16), to, to)
	}
}

// pack writes 8*n8 values of eight rows, stride bytes apart, as float32: eight
// values of the first row, eight of the second, and so on.
func (t floatType) pack() {
	TEXT("pack"+t.name, NOSPLIT, "func(n8 int, dst *float32, rows *byte, stride int)")
	Pragma("noescape")
	n8, dst, rows, stride := param("n8"), param("dst"), param("rows"), param("stride")
	stride3, rows4 := GP64(), GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	LEAQ(Mem{Base: rows, Index: stride, Scale: 4}, rows4)
	Label("loop")
	for r := range 8 {
		v := YMM()
		t.convert(eightRows(rows, rows4, stride, stride3, r, 0), v)
		VMOVUPS(v, Mem{Base: dst, Disp: 32 * r})
	}
	ADDQ(U32(256), dst)
	ADDQ(U32(uint32(8*t.size)), rows)
	ADDQ(U32(uint32(8*t.size)), rows4)
	DECQ(n8)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// packed adds to the lanes of n columns the products of 8*n8 packed weights. A
// column has eight lanes for each of eight rows. The AVX2 kernels take the four
// rows that begin at w; the AVX-512 kernel takes eight, two in a register.
func packed(n int) {
	wide := n > floatGroup
	name, vecs := fmt.Sprintf("packedx%d", n), ymms
	if wide {
		name, vecs = "packedAVX512", zmms
	}
	TEXT(name, NOSPLIT, "func(n8 int, w, x *float32, ldx int, lanes *float32)")
	Pragma("noescape")
	n8, w, lanes := param("n8"), param("w"), param("lanes")
	x := []reg.GPVirtual{param("x")}
	ldx := param("ldx")
	SHLQ(Imm(2), ldx)
	if wide {
		x = append(x, GP64())
		LEAQ(Mem{Base: ldx, Index: ldx, Scale: 2}, x[1])
		ADDQ(x[0], x[1])
	}
	column := func(c int) Mem {
		m := Mem{Base: x[c/3]}
		if c%3 > 0 {
			m.Index, m.Scale = ldx, uint8(c%3)
		}
		return m
	}
	size := 32 // of a vector
	if wide {
		size = 64
	}
	acc := vecs(4 * n)
	at := func(i int) Mem { return Mem{Base: lanes, Disp: i/4*256 + i%4*size} }
	for i, v := range acc {
		VMOVUPS(at(i), v)
	}

	Label("loop")
	if wide {
		rows := zmms(4)
		for r := range rows {
			VMOVUPS(Mem{Base: w, Disp: size * r}, rows[r])
		}
		for c := range n {
			held, p := ZMM(), ZMM()
			VBROADCASTF64X4(column(c), held)
			for r := range rows {
				VMULPS(held, rows[r], p)
				VADDPS(p, acc[4*c+r], acc[4*c+r])
			}
		}
	} else {
		held := ymms(min(n, 2)) // a third column is read as it is used
		for c := range held {
			VMOVUPS(column(c), held[c])
		}
		for r := range 4 {
			row := YMM()
			VMOVUPS(Mem{Base: w, Disp: size * r}, row)
			multiplyAdd(row, held, column, n, func(c int) reg.VecVirtual { return acc[4*c+r] })
		}
	}
	ADDQ(U32(256), w)
	for _, p := range x {
		ADDQ(U32(32), p)
	}
	DECQ(n8)
	JNZ(LabelRef("loop"))
	for i, v := range acc {
		VMOVUPS(v, at(i))
	}
	VZEROUPPER()
	RET()
}

func zmms(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = ZMM()
	}
	return v
}

// foldLanes sets eight rows of n columns, ldd apart, to the sums of their lanes.
func foldLanes() {
	TEXT("foldLanes", NOSPLIT, "func(n int, lanes, dst *float32, ldd int)")
	Pragma("noescape")
	n, lanes, dst, ldd := param("n"), param("lanes"), param("dst"), param("ldd")
	Label("loop")
	for h := range 2 {
		acc := ymms(4)
		for r := range acc {
			VMOVUPS(Mem{Base: lanes, Disp: 128*h + 32*r}, acc[r])
		}
		VMOVUPS(fold(acc), Mem{Base: dst, Disp: 16 * h})
	}
	ADDQ(U32(256), lanes)
	LEAQ(Mem{Base: dst, Index: ldd, Scale: 4}, dst)
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
