package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rows addresses up to four things that are the same distance apart.
type rows struct {
	base, stride, stride3 reg.Register
}

// newRows returns n rows; it spends a register on the fourth.
func newRows(n int, base, stride reg.GPVirtual) rows {
	r := rows{base: base, stride: stride}
	if n == 4 {
		s := GP64()
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, s)
		r.stride3 = s
	}
	return r
}

func (r rows) from(base reg.Register) rows { r.base = base; return r }

func (r rows) row(i int) Mem {
	switch i {
	case 0:
		return Mem{Base: r.base}
	case 3:
		return Mem{Base: r.base, Index: r.stride3, Scale: 1}
	default:
		return Mem{Base: r.base, Index: r.stride, Scale: uint8(i)}
	}
}

// scores writes the function that scores blocks of keys for heads queries: four
// keys, or two where four heads fill the registers. Each score has its eight
// lanes in one register. Strides are in bytes, dim is in bytes of the queries.
func scores(heads int, half bool) {
	keysAtOnce := 4
	if heads == 4 {
		keysAtOnce = 2
	}
	name, key, step := typed(fmt.Sprintf("scores%d", heads), half)
	begin(name, fmt.Sprintf("Group.%s of %d heads for blocks*%d keys", twin("Scores", half), heads, keysAtOnce),
		fmt.Sprintf("func(blocks int, scores, queries *float32, keys *%s, dim, stride, row int, scale float32)", key))
	blocks, dst, factor := param("blocks"), param("scores"), paramVector("scale")
	queries := newRows(heads, param("queries"), param("dim"))
	keys := newRows(keysAtOnce, param("keys"), param("stride"))
	row := param("row")
	end1 := GP64()
	MOVQ(queries.base, end1)
	ADDQ(queries.stride, end1)

	Label("block")
	sums := make([]reg.VecVirtual, heads*keysAtOnce)
	for i := range sums {
		sums[i] = YMM()
		VXORPS(sums[i], sums[i], sums[i])
	}
	q, k := GP64(), GP64()
	MOVQ(queries.base, q)
	MOVQ(keys.base, k)
	Label("dim")
	var kv []reg.VecVirtual
	for j := range keysAtOnce {
		kv = append(kv, load(keys.from(k).row(j), half))
	}
	for h := range heads {
		m := queries.from(q).row(h)
		for j := range keysAtOnce {
			t := YMM()
			VMULPS(m, kv[j], t)
			VADDPS(t, sums[h*keysAtOnce+j], sums[h*keysAtOnce+j])
		}
	}
	ADDQ(Imm(floats), q)
	ADDQ(Imm(uint64(step)), k)
	CMPQ(q, end1)
	JNE(LabelRef("dim"))

	out := GP64()
	MOVQ(dst, out)
	for i := 0; i < len(sums); i += 4 {
		s := sum4(sums[i:])
		VMULPS(factor.AsX(), s, s)
		if keysAtOnce == 4 {
			VMOVUPS(s, at(out))
		} else {
			VMOVLPS(s, at(out))
			ADDQ(row, out)
			VMOVHPS(s, at(out))
		}
		ADDQ(row, out)
	}
	ADDQ(Imm(uint64(4*keysAtOnce)), dst)
	LEAQ(Mem{Base: keys.base, Index: keys.stride, Scale: uint8(keysAtOnce)}, keys.base)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	end()
}

// sum4 returns the sums of the lanes of four vectors, in the order of lanes.sum.
func sum4(v []reg.VecVirtual) reg.VecVirtual {
	for _, y := range v[:4] {
		hi := XMM()
		VEXTRACTF128(Imm(1), y, hi)
		VADDPS(hi, y.AsX(), y.AsX()) // l0+l4, l1+l5, l2+l6, l3+l7
	}
	pair := func(a, b reg.Register) reg.VecVirtual {
		lo, hi := XMM(), XMM()
		VSHUFPS(Imm(0x44), b, a, lo)
		VSHUFPS(Imm(0xee), b, a, hi)
		VADDPS(hi, lo, lo) // (l0+l4)+(l2+l6), (l1+l5)+(l3+l7) of a, then of b
		return lo
	}
	ab, cd := pair(v[0].AsX(), v[1].AsX()), pair(v[2].AsX(), v[3].AsX())
	even, odd := XMM(), XMM()
	VSHUFPS(Imm(0x88), cd, ab, even)
	VSHUFPS(Imm(0xdd), cd, ab, odd)
	VADDPS(odd, even, even)
	return even
}

// mix writes the function that adds n weighted values to vectors*8 elements of
// heads outputs, which stay in registers. Strides and dim are in bytes.
func mix(heads, vectors int, half bool) {
	name, value, step := typed(fmt.Sprintf("mix%dx%d", heads, vectors), half)
	begin(name, fmt.Sprintf("Group.%s of %d elements of %d heads", twin("Mix", half), 8*vectors, heads),
		fmt.Sprintf("func(n int, out, weights *float32, values *%s, dim, stride, row int)", value))
	n := param("n")
	out := newRows(heads, param("out"), param("dim"))
	weights := newRows(heads, param("weights"), param("row"))
	values, stride := param("values"), param("stride")
	acc := make([][]reg.VecVirtual, heads)
	for h := range acc {
		for i := range vectors {
			acc[h] = append(acc[h], load(out.row(h).Offset(i*floats), false))
		}
	}
	Label("loop")
	var v []reg.VecVirtual
	if heads > 1 {
		for i := range vectors {
			v = append(v, load(at(values).Offset(i*step), half))
		}
	}
	for h := range heads {
		w := YMM()
		VBROADCASTSS(weights.row(h), w)
		for i := range vectors {
			t := YMM()
			switch {
			case heads > 1:
				VMULPS(v[i], w, t)
			case half:
				VCVTPH2PS(at(values).Offset(i*step), t)
				VMULPS(t, w, t)
			default:
				VMULPS(at(values).Offset(i*step), w, t)
			}
			VADDPS(t, acc[h][i], acc[h][i])
		}
	}
	ADDQ(Imm(4), weights.base)
	ADDQ(stride, values)
	DECQ(n)
	JNZ(LabelRef("loop"))
	for h := range acc {
		for i := range vectors {
			VMOVUPS(acc[h][i], out.row(h).Offset(i*floats))
		}
	}
	end()
}
