// Command gen writes the assembly of package kernel:
//
//	go run . -out ../kernel_amd64.s -stubs ../stubs_amd64.go -pkg kernel
//
// What a kernel does is said in the package's panel.go and float.go; the layout
// of panels is in its types.go, that of activations in its acts.go.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	ConstraintExpr("!purego")
	for _, t := range blockTypes {
		t.interleave()
		for c := 1; c <= group; c++ {
			t.mul(c, false)
		}
		t.mul(group, true)
		t.mul(2*group, true)
	}
	for _, t := range superTypes {
		t.interleave()
		for c := 1; c <= group; c++ {
			t.mul(c, false)
		}
		t.mul(group, true)
		t.mul(2*group, true)
	}
	for _, t := range floatTypes {
		for c := 1; c <= floatGroup; c++ {
			t.mul(c)
		}
	}
	for _, t := range floatTypes {
		t.pack()
	}
	for c := 1; c <= floatGroup; c++ {
		packed(c)
	}
	packed(packedColumns)
	foldLanes()
	quantizer("quantize32AVX2", 32, rec32D)
	quantizer("quantize256AVX2", 256, rec256D)
	for _, t := range gridTypes {
		t.decode()
		for c := 1; c <= group; c++ {
			t.mul(c)
		}
	}
	Generate()
}

// group is the number of columns whose activations lie together. An AVX2 kernel
// takes that many or fewer, a VNNI kernel one or two groups.
const group = 4

// Sizes and offsets of activation records, as in acts.go.
const (
	rec32      = 48
	rec32D     = 32
	rec32DS    = 36
	rec32Pairs = 40

	rec256      = 384
	rec256Pairs = 256
	rec256S16   = 320
	rec256S32   = 352
	rec256D     = 368
)

func param(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// constants holds the read-only vectors by their contents.
var constants = map[[8]uint32]Mem{}

// vector returns read-only memory of 512 bits that holds the eight lanes twice.
func vector(lanes [8]uint32) Mem {
	m, ok := constants[lanes]
	if !ok {
		m = GLOBL(fmt.Sprintf("vec%d", len(constants)), 8|16) // RODATA|NOPTR
		for i := range 16 {
			DATA(4*i, U32(lanes[i%8]))
		}
		constants[lanes] = m
	}
	return m
}

// lanes returns read-only memory with v in all lanes.
func lanes(v uint32) Mem { return vector([8]uint32{v, v, v, v, v, v, v, v}) }

// bytes returns read-only memory with b in all bytes.
func bytes(b byte) Mem { return lanes(uint32(b) * 0x01010101) }

// words returns read-only memory with w in all 16-bit lanes.
func words(w uint32) Mem { return lanes(w | w<<16) }

// pick returns the shuffle that moves bytes a, b, c, d of each 32-bit lane to
// its bytes 0 to 3; -1 clears a byte.
func pick(a, b, c, d int) Mem {
	var out [8]uint32
	for i := range out {
		for j, k := range []int{a, b, c, d} {
			v := uint32(0x80)
			if k >= 0 {
				v = uint32(4*(i%4) + k)
			}
			out[i] |= v << (8 * j)
		}
	}
	return vector(out)
}

// table returns the shuffle table of 16 signed bytes, plus an offset.
func table(values [16]int8, offset int) Mem {
	var out [8]uint32
	for i := range out {
		for j := range 4 {
			out[i] |= uint32(byte(int(values[4*(i%4)+j])+offset)) << (8 * j)
		}
	}
	return vector(out)
}

var (
	iq4 = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	fp4 = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
)

func ymms(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = YMM()
	}
	return v
}

// A field is a part of a block, as in the package's types.go.
type field struct{ off, size, unit int }

// A format is what the kernels of all quantized types have in common.
type format struct {
	name   string
	size   int // of a block in bytes
	panel  []field
	fifths bool
}

// at returns where field i of a panel's block begins.
func (f *format) at(i int) int {
	at := 0
	for _, p := range f.panel[:i] {
		at += 8 * p.size
	}
	return at
}

// prefetch fetches the cache lines of size bytes at p+off.
func prefetch(p reg.GPVirtual, off, size int) {
	for o := 0; o < size; o += 64 {
		PREFETCHT0(Mem{Base: p, Disp: off + o})
	}
}
