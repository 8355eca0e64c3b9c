//go:build amd64 && unix && !purego

package vec_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/layerpipe/layerpipe/compute/vec"
)

// specials are what random numbers do not meet.
var specials = []uint32{
	0, 1 << 31, // zeros
	1, 0x80000001, 0x007fffff, 0x00800000, // subnormals and the least normal
	0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, // infinities, NaNs
	0x7f7fffff, 0xff7fffff, 0x7f000000, // huge
	0x42b17217, 0x42b17218, 0xc2cff1b4, 0xc2cff1b5, 0xc2aeac4f, // where exp overflows, vanishes, becomes subnormal
	0x3f800000, 0xbf800000, 0x477fe000, 0x477ff000, 0x33000000, 0x33000001, // 1, and where halves end
}

// fill makes random floats, share of a thousand of them specials.
func fill(r *rand.Rand, x []float32, share int) {
	for i := range x {
		x[i] = float32(r.NormFloat64() * math.Exp(4*r.NormFloat64()))
		if r.IntN(1000) < share {
			x[i] = math.Float32frombits(specials[r.IntN(len(specials))])
		}
	}
}

// guarded returns n elements that end where a page without access begins.
func guarded[T any](t *testing.T, n int) []T {
	var zero T
	page := unix.Getpagesize()
	size := n * int(unsafe.Sizeof(zero))
	total := (size+page-1)/page*page + page
	m, err := unix.Mmap(-1, 0, total, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(m)) })
	require.NoError(t, unix.Mprotect(m[total-page:], unix.PROT_NONE))
	return unsafe.Slice((*T)(unsafe.Pointer(&m[total-page-size])), n)
}

// tail is the last n elements, which end where s ends.
func tail[T any](s []T, n int) []T { return s[len(s)-n:] }

// Assembly and Go must agree in every bit, for every length, and touch nothing
// beyond a slice's end.
func TestFastEqualsGeneric(t *testing.T) {
	if !vec.HasFast {
		t.Skip("no assembly on this machine, or LAYERPIPE_KERNELS=generic")
	}
	const room, wide = 8 * 200, 24 * 300
	var buf inputs
	for _, x := range []*[]float32{&buf.a, &buf.b, &buf.c} {
		*x = guarded[float32](t, room)
	}
	buf.h = guarded[uint16](t, room)
	buf.wide, buf.wideF16 = guarded[float32](t, wide), guarded[uint16](t, wide)

	for _, op := range operations {
		t.Run(op.name, func(t *testing.T) {
			for n := 0; n <= 200; n++ {
				for _, share := range []int{0, 8, 500} {
					// Both ways start from the same inputs, made from the same seed.
					run := func(fast bool) []float32 {
						r := rand.New(rand.NewPCG(uint64(n), uint64(share)))
						in := inputs{a: tail(buf.a, n), b: tail(buf.b, n), c: tail(buf.c, n), h: tail(buf.h, n), s: 0.37}
						g := &in.group
						if op.grouped {
							*g = vec.Group{Heads: r.IntN(8), Dim: r.IntN(12) * 8, Len: r.IntN(24)}
							if r.IntN(4) == 0 {
								g.Dim += r.IntN(8)
							}
							g.Stride, g.Row = g.Dim+8*r.IntN(2)+r.IntN(2), g.Len+r.IntN(3)
							in.h = nil
							in.a = tail(buf.a, g.Heads*g.Dim)
							in.b = tail(buf.b, max(0, (g.Heads-1)*g.Row+g.Len))
							last := 0
							if g.Len > 0 {
								last = (g.Len-1)*g.Stride + g.Dim
							}
							in.wide, in.wideF16 = tail(buf.wide, last), tail(buf.wideF16, last)
						}
						for _, x := range [][]float32{in.a, in.b, in.c, in.wide} {
							fill(r, x, share)
						}
						vec.ToF16(in.h, in.b[:len(in.h)])
						vec.ToF16(in.wideF16, in.wide)
						defer vec.SetFast(fast)()
						return slices.Clone(op.run(&in))
					}
					want, got := run(false), run(true)
					require.Len(t, got, len(want))
					for i := range want {
						same := math.Float32bits(got[i]) == math.Float32bits(want[i]) || got[i] != got[i] && want[i] != want[i]
						if !same {
							t.Fatalf("n %d, specials %d/1000: element %d is %x (%g), want %x (%g)", n, share, i,
								math.Float32bits(got[i]), got[i], math.Float32bits(want[i]), want[i])
						}
					}
				}
			}
		})
	}
}

// Vectors longer than what one call of assembly does.
func TestFastEqualsGenericOfLongVectors(t *testing.T) {
	if !vec.HasFast {
		t.Skip("no assembly on this machine, or LAYERPIPE_KERNELS=generic")
	}
	g := vec.Group{Heads: 5, Dim: 136, Len: 333, Stride: 136, Row: 333}
	for _, op := range operations {
		run := func(fast bool) []float32 {
			n := 50_003
			in := inputs{a: randoms(n, 1), b: randoms(n, 2), c: randoms(n, 3), h: make([]uint16, n), s: 3, group: g, wide: randoms(n, 4), wideF16: make([]uint16, n)}
			vec.ToF16(in.h, in.b)
			vec.ToF16(in.wideF16, in.wide)
			defer vec.SetFast(fast)()
			return op.run(&in)
		}
		require.Equal(t, run(false), run(true), op.name)
	}
}
