// Command gen writes the assembly of package vec:
//
//	go run . -out ../vec_amd64.s -stubs ../stubs_amd64.go -pkg vec
//
// The functions do whole vectors of eight elements and leave tails to Go. Each
// does to every element exactly the operations of its generic twin, in the
// same order; products and sums are separate instructions.
package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	ConstraintExpr("!purego")
	for _, half := range []bool{false, true} {
		dot(half)
		addScaled(half)
	}
	add()
	scale()
	scaleMul()
	convert()
	exp()
	expSum()
	maxLanes()
	siluMul()
	geluMul()
	ropePairs()
	ropeHalves()
	for _, half := range []bool{false, true} {
		for _, heads := range []int{1, 2, 4} {
			scores(heads, half)
			mix(heads, 8/heads, half)
			mix(heads, 1, half)
		}
	}
	Generate()
}

// Sizes of a vector's eight elements.
const (
	floats = 32
	halves = 16
)

// begin starts a function that is the vector form of twin.
func begin(name, twin, signature string) {
	TEXT(name, NOSPLIT, signature)
	Doc(name + " is " + twin + ".")
	Pragma("noescape")
}

func end() {
	VZEROUPPER()
	RET()
}

func param(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

func at(base reg.Register) Mem { return Mem{Base: base} }

// paramVector returns a float32 parameter in all eight lanes.
func paramVector(name string) reg.VecVirtual {
	a, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	v := YMM()
	VBROADCASTSS(a.Addr, v)
	return v
}

// load returns the vector at m, of halves or floats.
func load(m Mem, half bool) reg.VecVirtual {
	v := YMM()
	if half {
		VCVTPH2PS(m, v)
	} else {
		VMOVUPS(m, v)
	}
	return v
}

// An array is a pointer that moves along, and the bytes that eight elements take.
type array struct {
	p    reg.GPVirtual
	step int
}

// each runs body for every vector of n elements, n > 0 and a multiple of 8, and
// moves the arrays along.
func each(n reg.GPVirtual, body func(), arrays ...array) {
	Label("loop")
	body()
	for _, a := range arrays {
		ADDQ(Imm(uint64(a.step)), a.p)
	}
	SUBQ(Imm(8), n)
	JNZ(LabelRef("loop"))
}

// typed names the function and the element type for floats or halves.
func typed(name string, half bool) (string, string, int) {
	if half {
		return name + "F16AVX2", "uint16", halves
	}
	return name + "AVX2", "float32", floats
}

func twin(name string, half bool) string {
	if half {
		return name + "F16"
	}
	return name
}

// constants holds the read-only vectors by their lane.
var constants = map[uint32]Mem{}

// bits returns read-only memory with the lane eight times.
func bits(lane uint32) Mem {
	m, ok := constants[lane]
	if !ok {
		m = GLOBL(fmt.Sprintf("lanes%08x", lane), RODATA|NOPTR)
		for i := range 8 {
			DATA(4*i, U32(lane))
		}
		constants[lane] = m
	}
	return m
}

func float(x float32) Mem { return bits(math.Float32bits(x)) }

func dot(half bool) {
	name, b, step := typed("dot", half)
	begin(name, "the loop of "+twin("Dot", half), fmt.Sprintf("func(n int, a *float32, b *%s, sums *float32)", b))
	n, pa, pb, ps := param("n"), param("a"), param("b"), param("sums")
	sums := load(at(ps), false)
	each(n, func() {
		x := load(at(pb), half)
		VMULPS(at(pa), x, x)
		VADDPS(x, sums, sums)
	}, array{pa, floats}, array{pb, step})
	VMOVUPS(sums, at(ps))
	end()
}

func addScaled(half bool) {
	name, x, step := typed("addScaled", half)
	begin(name, "the loop of "+twin("AddScaled", half), fmt.Sprintf("func(n int, dst *float32, x *%s, s float32)", x))
	n, dst, px, s := param("n"), param("dst"), param("x"), paramVector("s")
	each(n, func() {
		x := load(at(px), half)
		VMULPS(s, x, x)
		VADDPS(at(dst), x, x)
		VMOVUPS(x, at(dst))
	}, array{dst, floats}, array{px, step})
	end()
}

func add() {
	begin("addAVX2", "the loop of Add", "func(n int, dst, x *float32)")
	n, dst, px := param("n"), param("dst"), param("x")
	each(n, func() {
		x := load(at(px), false)
		VADDPS(at(dst), x, x)
		VMOVUPS(x, at(dst))
	}, array{dst, floats}, array{px, floats})
	end()
}

func scale() {
	begin("scaleAVX2", "the loop of Scale", "func(n int, dst *float32, s float32)")
	n, dst, s := param("n"), param("dst"), paramVector("s")
	each(n, func() {
		x := YMM()
		VMULPS(at(dst), s, x)
		VMOVUPS(x, at(dst))
	}, array{dst, floats})
	end()
}

func scaleMul() {
	begin("scaleMulAVX2", "the loop of RMSNorm", "func(n int, dst, x, weight *float32, r float32)")
	n, dst, px, pw, r := param("n"), param("dst"), param("x"), param("weight"), paramVector("r")
	each(n, func() {
		x := YMM()
		VMULPS(at(px), r, x)
		VMULPS(at(pw), x, x)
		VMOVUPS(x, at(dst))
	}, array{dst, floats}, array{px, floats}, array{pw, floats})
	end()
}

func convert() {
	begin("fromF16AVX2", "the loop of FromF16", "func(n int, dst *float32, src *uint16)")
	n, dst, src := param("n"), param("dst"), param("src")
	each(n, func() {
		VMOVUPS(load(at(src), true), at(dst))
	}, array{dst, floats}, array{src, halves})
	end()

	begin("toF16AVX2", "the loop of ToF16", "func(n int, dst *uint16, src *float32)")
	n, dst, src = param("n"), param("dst"), param("src")
	each(n, func() {
		VCVTPS2PH(Imm(0), load(at(src), false), at(dst)) // to nearest even
	}, array{dst, halves}, array{src, floats})
	end()
}

// The constants of exp.go and gate.go.
var (
	expC       = []float32{0.4999999337288021, 0.16666519521858164, 0.04166840112067736, 0.008368851272295497, 0.0013814319021390963}
	log2e      = float32(math.Log2E)
	roundMagic = float32(0x1.8p23)
	ln2Hi      = float32(0x1.62e4p-1)
	ln2Lo      = float32(math.Ln2 - 0x1.62e4p-1)
	geluC1     = float32(1.595769121605730711759785)
	geluC3     = float32(0.044715 * 1.595769121605730711759785)
)

const signBit = 1 << 31

// expOf replaces x by exp(x).
func expOf(x reg.VecVirtual) {
	limit, shifted, t, r, q := YMM(), YMM(), YMM(), YMM(), YMM()
	// MIN and MAX return their last source, here Go's first, if one is NaN.
	VMOVUPS(float(89), limit)
	VMINPS(x, limit, x)
	VMOVUPS(float(-104), limit)
	VMAXPS(x, limit, x)
	VMULPS(float(log2e), x, shifted)
	VADDPS(float(roundMagic), shifted, shifted)
	n := YMM()
	VSUBPS(float(roundMagic), shifted, n)
	VMULPS(float(ln2Hi), n, t)
	VSUBPS(t, x, r)
	VMULPS(float(ln2Lo), n, t)
	VSUBPS(t, r, r)
	VMULPS(float(expC[4]), r, q)
	for i := 3; i > 0; i-- {
		VADDPS(float(expC[i]), q, q)
		VMULPS(r, q, q)
	}
	VADDPS(float(expC[0]), q, q)
	VMULPS(r, r, t)
	VMULPS(t, q, q)
	VADDPS(r, q, q)
	VADDPS(float(1), q, q)
	half := YMM()
	VPSUBD(float(roundMagic), shifted, shifted)
	VPSRAD(Imm(1), shifted, half)
	VPSUBD(half, shifted, shifted)
	for _, e := range []reg.VecVirtual{half, shifted} {
		VPADDD(bits(127), e, e)
		VPSLLD(Imm(23), e, e)
		VMULPS(e, q, q)
	}
	VMOVAPS(q, x)
}

func exp() {
	begin("expAVX2", "the loop of Exp", "func(n int, dst, x *float32)")
	n, dst, px := param("n"), param("dst"), param("x")
	each(n, func() {
		x := load(at(px), false)
		expOf(x)
		VMOVUPS(x, at(dst))
	}, array{dst, floats}, array{px, floats})
	end()
}

func expSum() {
	begin("expSumAVX2", "the loop of Softmax", "func(n int, x *float32, max float32, sums *float32)")
	n, px, most, ps := param("n"), param("x"), paramVector("max"), param("sums")
	sums := load(at(ps), false)
	each(n, func() {
		x := load(at(px), false)
		VSUBPS(most, x, x)
		expOf(x)
		VMOVUPS(x, at(px))
		VADDPS(x, sums, sums)
	}, array{px, floats})
	VMOVUPS(sums, at(ps))
	end()
}

func maxLanes() {
	begin("maxAVX2", "the loop of Max", "func(n int, x *float32, most *float32) (nan bool)")
	n, px, pm := param("n"), param("x"), param("most")
	most := load(at(pm), false)
	nan := YMM()
	VXORPS(nan, nan, nan)
	each(n, func() {
		x, t := load(at(px), false), YMM()
		VMAXPS(most, x, most) // most where x is no greater
		VCMPPS(Imm(3), x, x, t)
		VORPS(t, nan, nan)
	}, array{px, floats})
	VMOVUPS(most, at(pm))
	mask, r := GP32(), GP8()
	VMOVMSKPS(nan, mask)
	TESTL(mask, mask)
	SETNE(r)
	Store(r, ReturnIndex(0))
	end()
}

// gated writes the function that sets dst to gate / (1 + exp(-arg(gate))) * up.
func gated(name, twin string, arg func(g, x reg.VecVirtual)) {
	begin(name, twin, "func(n int, dst, gate, up *float32)")
	n, dst, pg, pu := param("n"), param("dst"), param("gate"), param("up")
	each(n, func() {
		g, x := load(at(pg), false), YMM()
		arg(g, x)
		VXORPS(bits(signBit), x, x)
		expOf(x)
		VADDPS(float(1), x, x)
		VDIVPS(x, g, x)
		VMULPS(at(pu), x, x)
		VMOVUPS(x, at(dst))
	}, array{dst, floats}, array{pg, floats}, array{pu, floats})
	end()
}

func siluMul() {
	gated("siluMulAVX2", "the loop of SiLUMul", func(g, x reg.VecVirtual) { VMOVAPS(g, x) })
}

func geluMul() {
	gated("geluMulAVX2", "the loop of GELUMul", func(g, x reg.VecVirtual) {
		VMULPS(g, g, x)
		VMULPS(float(geluC3), x, x)
		VADDPS(float(geluC1), x, x)
		VMULPS(g, x, x)
	})
}

func ropeHalves() {
	begin("ropeHalvesAVX2", "the loop of Rope for halves", "func(n int, a, b, cos, sin *float32)")
	n, pa, pb, pc, ps := param("n"), param("a"), param("b"), param("cos"), param("sin")
	each(n, func() {
		a, b, c, s := load(at(pa), false), load(at(pb), false), load(at(pc), false), load(at(ps), false)
		x, t := YMM(), YMM()
		VMULPS(c, a, x)
		VMULPS(s, b, t)
		VSUBPS(t, x, x)
		VMOVUPS(x, at(pa))
		VMULPS(s, a, a)
		VMULPS(c, b, b)
		VADDPS(b, a, a)
		VMOVUPS(a, at(pb))
	}, array{pa, floats}, array{pb, floats}, array{pc, floats}, array{ps, floats})
	end()
}

func ropePairs() {
	twice := GLOBL("twice", RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(uint32(i/2)))
	}
	begin("ropePairsAVX2", "the loop of Rope for pairs", "func(n int, x, cos, sin *float32)")
	n, px, pc, ps := param("n"), param("x"), param("cos"), param("sin")
	index := YMM()
	VMOVDQU(twice, index)
	each(n, func() {
		for i := range 2 {
			c, s, t := YMM(), YMM(), YMM()
			VMOVUPS(at(pc).Offset(16*i), c.AsX())
			VMOVUPS(at(ps).Offset(16*i), s.AsX())
			VPERMPS(c, index, c)
			VPERMPS(s, index, s)
			x := load(at(px).Offset(32*i), false)
			VPERMILPS(Imm(0xb1), x, t) // each pair swapped
			VMULPS(s, t, t)
			VMULPS(c, x, x)
			VADDSUBPS(t, x, x) // minus in even lanes, plus in odd ones
			VMOVUPS(x, at(px).Offset(32*i))
		}
	}, array{px, 2 * floats}, array{pc, floats}, array{ps, floats})
	end()
}
