package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A floatType is a type of float weights of size bytes.
type floatType struct {
	name string
	size int
}

var floatTypes = []floatType{{"F32", 4}, {"F16", 2}, {"BF16", 2}}

// floatGroup is the greatest number of columns of a float kernel: with four
// rows, twelve sums and their operands fill the registers.
const floatGroup = 3

// mul sets four rows of n columns to products of rows of n8 times eight values.
// Four rows are one stream of memory for the fetching at next.
func (t floatType) mul(n int) {
	TEXT(fmt.Sprintf("mul%sx%d", t.name, n), NOSPLIT,
		"func(n8 int, rows *byte, stride int, next uintptr, x *float32, ldx int, dst *float32, ldd int)")
	Pragma("noescape")
	var rows [4]reg.GPVirtual
	rows[0] = param("rows")
	stride, next, end := param("stride"), param("next"), param("n8")
	for r := 1; r < 4; r++ {
		rows[r] = GP64()
		LEAQ(Mem{Base: rows[r-1], Index: stride, Scale: 1}, rows[r])
	}
	x := []reg.GPVirtual{param("x")}
	if n > 1 {
		ldx := param("ldx")
		SHLQ(Imm(2), ldx)
		for c := 1; c < n; c++ {
			x = append(x, GP64())
			LEAQ(Mem{Base: x[c-1], Index: ldx, Scale: 1}, x[c])
		}
	}
	i := GP64()
	XORQ(i, i)
	IMUL3Q(Imm(uint64(8*t.size)), end, end)
	acc := ymms(4 * n)
	for _, v := range acc {
		VXORPS(v, v, v)
	}

	Label("loop")
	column := func(c int) Mem { return Mem{Base: x[c], Index: i, Scale: uint8(4 / t.size)} }
	// Two columns fit in registers beside the sums; a third is read as it is
	// used.
	held := ymms(min(n, 2))
	for c := range held {
		VMOVUPS(column(c), held[c])
	}
	for r := range rows {
		w := YMM()
		t.convert(Mem{Base: rows[r], Index: i, Scale: 1}, w)
		multiplyAdd(w, held, column, n, func(c int) reg.VecVirtual { return acc[4*c+r] })
	}
	prefetch(next, 0, 32*t.size)
	ADDQ(U32(uint32(32*t.size)), next)
	ADDQ(U32(uint32(8*t.size)), i)
	CMPQ(i, end)
	JNE(LabelRef("loop"))

	dst := param("dst")
	var ldd reg.GPVirtual
	if n > 1 {
		ldd = param("ldd")
	}
	for c := range n {
		sum := fold(acc[4*c : 4*c+4])
		VMOVUPS(sum, Mem{Base: dst})
		if c < n-1 {
			LEAQ(Mem{Base: dst, Index: ldd, Scale: 4}, dst)
		}
	}
	VZEROUPPER()
	RET()
}

// multiplyAdd adds to the sums of n columns the products of the weights w. It
// multiplies and adds, which makes use of more units than fusing the two, and
// is how the product is defined.
func multiplyAdd(w reg.VecVirtual, held []reg.VecVirtual, column func(c int) Mem, n int, sum func(c int) reg.VecVirtual) {
	for c := range n {
		p := w
		if c < n-1 {
			p = YMM()
		}
		if c < len(held) {
			VMULPS(held[c], w, p)
		} else {
			VMULPS(column(c), w, p)
		}
		VADDPS(p, sum(c), sum(c))
	}
}

// fold adds the lanes of four rows' sums, ((0+4)+(2+6))+((1+5)+(3+7)).
func fold(acc []reg.VecVirtual) reg.VecVirtual {
	var s [4]reg.VecVirtual
	for r := range s {
		s[r] = XMM()
		VEXTRACTF128(Imm(1), acc[r], s[r])
		VADDPS(s[r], acc[r].AsX(), s[r])
	}
	t := [4]reg.VecVirtual{XMM(), XMM(), XMM(), XMM()}
	VUNPCKLPS(s[1], s[0], t[0]) // 0+4 and 1+5 of rows 0 and 1
	VUNPCKLPS(s[3], s[2], t[1])
	VUNPCKHPS(s[1], s[0], t[2]) // 2+6 and 3+7
	VUNPCKHPS(s[3], s[2], t[3])
	VADDPS(t[2], t[0], t[0]) // (0+4)+(2+6) and (1+5)+(3+7) of rows 0 and 1
	VADDPS(t[3], t[1], t[1])
	VMOVLHPS(t[1], t[0], t[2])
	VMOVHLPS(t[0], t[1], t[3])
	VADDPS(t[3], t[2], t[2])
	return t[2]
}
