//go:build amd64 && !purego

package vec

import (
	"os"

	"golang.org/x/sys/cpu"
)

//go:generate go -C _gen run . -out ../vec_amd64.s -stubs ../stubs_amd64.go -pkg vec

// fast is whether the assembly is used.
var fast = cpu.X86.HasAVX2 && cpu.X86.HasF16C && os.Getenv("LAYERPIPE_KERNELS") != "generic"

// piece is the most elements that a call does, some 20 µs. Assembly can't be
// preempted, and the collector waits for it: so the functions below return
// after each piece and, not inlined, let the scheduler in when they are called.
const piece = 1 << 14

// whole returns how many of n elements assembly does in one call.
func whole(n int) int {
	if !fast {
		return 0
	}
	return min(n, piece) &^ 7
}

// The functions below do the first elements of a vector and return how many:
// a multiple of eight, or 0 where the rest is for portable Go.

//go:noinline
func dotFast(sums *lanes, a, b []float32) int {
	n := whole(len(a))
	if n > 0 {
		dotAVX2(n, &a[0], &b[0], &sums[0])
	}
	return n
}

//go:noinline
func dotF16Fast(sums *lanes, a []float32, b []uint16) int {
	n := whole(len(a))
	if n > 0 {
		dotF16AVX2(n, &a[0], &b[0], &sums[0])
	}
	return n
}

//go:noinline
func addFast(dst, x []float32) int {
	n := whole(len(dst))
	if n > 0 {
		addAVX2(n, &dst[0], &x[0])
	}
	return n
}

//go:noinline
func addScaledFast(dst, x []float32, s float32) int {
	n := whole(len(dst))
	if n > 0 {
		addScaledAVX2(n, &dst[0], &x[0], s)
	}
	return n
}

//go:noinline
func addScaledF16Fast(dst []float32, x []uint16, s float32) int {
	n := whole(len(dst))
	if n > 0 {
		addScaledF16AVX2(n, &dst[0], &x[0], s)
	}
	return n
}

//go:noinline
func scaleFast(dst []float32, s float32) int {
	n := whole(len(dst))
	if n > 0 {
		scaleAVX2(n, &dst[0], s)
	}
	return n
}

//go:noinline
func scaleMulFast(dst, x, weight []float32, r float32) int {
	n := whole(len(dst))
	if n > 0 {
		scaleMulAVX2(n, &dst[0], &x[0], &weight[0], r)
	}
	return n
}

//go:noinline
func fromF16Fast(dst []float32, src []uint16) int {
	n := whole(len(dst))
	if n > 0 {
		fromF16AVX2(n, &dst[0], &src[0])
	}
	return n
}

//go:noinline
func toF16Fast(dst []uint16, src []float32) int {
	n := whole(len(dst))
	if n > 0 {
		toF16AVX2(n, &dst[0], &src[0])
	}
	return n
}

//go:noinline
func expFast(dst, x []float32) int {
	n := whole(len(dst))
	if n > 0 {
		expAVX2(n, &dst[0], &x[0])
	}
	return n
}

//go:noinline
func expSumFast(sums *lanes, x []float32, most float32) int {
	n := whole(len(x))
	if n > 0 {
		expSumAVX2(n, &x[0], most, &sums[0])
	}
	return n
}

//go:noinline
func siluMulFast(dst, gate, up []float32) int {
	n := whole(len(dst))
	if n > 0 {
		siluMulAVX2(n, &dst[0], &gate[0], &up[0])
	}
	return n
}

//go:noinline
func geluMulFast(dst, gate, up []float32) int {
	n := whole(len(dst))
	if n > 0 {
		geluMulAVX2(n, &dst[0], &gate[0], &up[0])
	}
	return n
}

//go:noinline
func ropePairsFast(x, cos, sin []float32) int {
	n := whole(len(cos))
	if n > 0 {
		ropePairsAVX2(n, &x[0], &cos[0], &sin[0])
	}
	return n
}

//go:noinline
func ropeHalvesFast(a, b, cos, sin []float32) int {
	n := whole(len(cos))
	if n > 0 {
		ropeHalvesAVX2(n, &a[0], &b[0], &cos[0], &sin[0])
	}
	return n
}

//go:noinline
func maxFast(most *lanes, x []float32) (n int, nan bool) {
	n = whole(len(x))
	if n > 0 {
		nan = maxAVX2(n, &x[0], &most[0])
	}
	return n, nan
}

// The functions below do a part of attention, see [Group.parts]. For scores
// they return how many keys they have done, for the mix how many elements of
// each head.

//go:noinline
func (g Group) scoresFast(scores, queries, keys []float32, scale float32) (n int) {
	if !fast || g.Dim == 0 || g.Dim%8 != 0 {
		return 0
	}
	switch g.Heads {
	case 1:
		if n = g.Len / 4; n > 0 {
			scores1AVX2(n, &scores[0], &queries[0], &keys[0], 4*g.Dim, 4*g.Stride, 4*g.Row, scale)
		}
		n *= 4
	case 2:
		if n = g.Len / 4; n > 0 {
			scores2AVX2(n, &scores[0], &queries[0], &keys[0], 4*g.Dim, 4*g.Stride, 4*g.Row, scale)
		}
		n *= 4
	case 4:
		if n = g.Len / 2; n > 0 {
			scores4AVX2(n, &scores[0], &queries[0], &keys[0], 4*g.Dim, 4*g.Stride, 4*g.Row, scale)
		}
		n *= 2
	}
	return n
}

//go:noinline
func (g Group) mixFast(out, weights, values []float32) (d int) {
	if !fast || g.Len == 0 {
		return 0
	}
	for g.Dim-d >= 8 {
		switch {
		case g.Heads == 1 && g.Dim-d >= 64:
			mix1x8AVX2(g.Len, &out[d], &weights[0], &values[d], 4*g.Dim, 4*g.Stride, 4*g.Row)
			d += 64
		case g.Heads == 2 && g.Dim-d >= 32:
			mix2x4AVX2(g.Len, &out[d], &weights[0], &values[d], 4*g.Dim, 4*g.Stride, 4*g.Row)
			d += 32
		case g.Heads == 4 && g.Dim-d >= 16:
			mix4x2AVX2(g.Len, &out[d], &weights[0], &values[d], 4*g.Dim, 4*g.Stride, 4*g.Row)
			d += 16
		case g.Heads == 1:
			mix1x1AVX2(g.Len, &out[d], &weights[0], &values[d], 4*g.Dim, 4*g.Stride, 4*g.Row)
			d += 8
		case g.Heads == 2:
			mix2x1AVX2(g.Len, &out[d], &weights[0], &values[d], 4*g.Dim, 4*g.Stride, 4*g.Row)
			d += 8
		case g.Heads == 4:
			mix4x1AVX2(g.Len, &out[d], &weights[0], &values[d], 4*g.Dim, 4*g.Stride, 4*g.Row)
			d += 8
		}
	}
	return d
}

//go:noinline
func (g Group) scoresF16Fast(scores, queries []float32, keys []uint16, scale float32) (n int) {
	if !fast || g.Dim == 0 || g.Dim%8 != 0 {
		return 0
	}
	switch g.Heads {
	case 1:
		if n = g.Len / 4; n > 0 {
			scores1F16AVX2(n, &scores[0], &queries[0], &keys[0], 4*g.Dim, 2*g.Stride, 4*g.Row, scale)
		}
		n *= 4
	case 2:
		if n = g.Len / 4; n > 0 {
			scores2F16AVX2(n, &scores[0], &queries[0], &keys[0], 4*g.Dim, 2*g.Stride, 4*g.Row, scale)
		}
		n *= 4
	case 4:
		if n = g.Len / 2; n > 0 {
			scores4F16AVX2(n, &scores[0], &queries[0], &keys[0], 4*g.Dim, 2*g.Stride, 4*g.Row, scale)
		}
		n *= 2
	}
	return n
}

//go:noinline
func (g Group) mixF16Fast(out, weights []float32, values []uint16) (d int) {
	if !fast || g.Len == 0 {
		return 0
	}
	for g.Dim-d >= 8 {
		switch {
		case g.Heads == 1 && g.Dim-d >= 64:
			mix1x8F16AVX2(g.Len, &out[d], &weights[0], &values[d], 4*g.Dim, 2*g.Stride, 4*g.Row)
			d += 64
		case g.Heads == 2 && g.Dim-d >= 32:
			mix2x4F16AVX2(g.Len, &out[d], &weights[0], &values[d], 4*g.Dim, 2*g.Stride, 4*g.Row)
			d += 32
		case g.Heads == 4 && g.Dim-d >= 16:
			mix4x2F16AVX2(g.Len, &out[d], &weights[0], &values[d], 4*g.Dim, 2*g.Stride, 4*g.Row)
			d += 16
		case g.Heads == 1:
			mix1x1F16AVX2(g.Len, &out[d], &weights[0], &values[d], 4*g.Dim, 2*g.Stride, 4*g.Row)
			d += 8
		case g.Heads == 2:
			mix2x1F16AVX2(g.Len, &out[d], &weights[0], &values[d], 4*g.Dim, 2*g.Stride, 4*g.Row)
			d += 8
		case g.Heads == 4:
			mix4x1F16AVX2(g.Len, &out[d], &weights[0], &values[d], 4*g.Dim, 2*g.Stride, 4*g.Row)
			d += 8
		}
	}
	return d
}
