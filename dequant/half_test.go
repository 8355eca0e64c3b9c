package dequant_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/dequant"
)

// binary16 is the definition of IEEE 754, in float64.
func binary16(h uint16) float64 {
	exp, frac := int(h>>10&31), float64(h&1023)
	v := math.Ldexp(1024+frac, exp-25)
	switch {
	case exp == 0:
		v = math.Ldexp(frac, -24)
	case exp == 31 && frac == 0:
		v = math.Inf(1)
	case exp == 31:
		v = math.NaN()
	}
	if h>>15 != 0 {
		v = -v
	}
	return v
}

func TestF16ToF32(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		got, want := dequant.F16ToF32(h), binary16(h)
		if math.IsNaN(want) {
			// The payload stays at the top and the quiet bit is set.
			bits := math.Float32bits(got)
			require.Equal(t, uint32(h>>15)<<31|0x7fc00000|uint32(h&1023)<<13, bits, "%#04x", h)
			continue
		}
		if float64(got) != want || math.Signbit(float64(got)) != math.Signbit(want) {
			t.Fatalf("F16ToF32(%#04x) = %v, want %v", h, got, want)
		}
	}
}

func TestF32ToF16RoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		want := h
		if h&0x7fff > 0x7c00 {
			want |= 0x200 // quiet
		}
		if got := dequant.F32ToF16(dequant.F16ToF32(h)); got != want {
			t.Fatalf("F32ToF16(F16ToF32(%#04x)) = %#04x", h, got)
		}
	}
}

// Between each pair of neighbours: the tie goes to the even one, and the
// float32 next to the tie goes to the nearer one.
func TestF32ToF16Rounding(t *testing.T) {
	for _, sign := range []uint16{0, 0x8000} {
		for h := range uint16(0x7c00) {
			lo, hi := sign|h, sign|(h+1)
			above := binary16(hi)
			if h == 0x7bff {
				above = math.Copysign(65536, binary16(lo)) // where infinity stands in for it
			}
			tie := float32((binary16(lo) + above) / 2)
			even := lo
			if h&1 != 0 {
				even = hi
			}
			toZero := math.Nextafter32(tie, 0)
			away := math.Nextafter32(tie, float32(math.Copysign(math.Inf(1), float64(tie))))
			if dequant.F32ToF16(tie) != even || dequant.F32ToF16(toZero) != lo || dequant.F32ToF16(away) != hi {
				t.Fatalf("between %#04x and %#04x: tie %#04x, below %#04x, above %#04x", lo, hi,
					dequant.F32ToF16(tie), dequant.F32ToF16(toZero), dequant.F32ToF16(away))
			}
		}
	}
}

func TestF32ToF16Extremes(t *testing.T) {
	for _, tc := range []struct {
		name string
		f    float32
		want uint16
	}{
		{"zero", 0, 0},
		{"negative zero", float32(math.Copysign(0, -1)), 0x8000},
		{"smallest float32", math.SmallestNonzeroFloat32, 0},
		{"its negative", -math.SmallestNonzeroFloat32, 0x8000},
		{"largest", 65504, 0x7bff},
		{"largest float32", math.MaxFloat32, 0x7c00},
		{"infinity", float32(math.Inf(-1)), 0xfc00},
		{"quiet NaN", math.Float32frombits(0x7fc00000), 0x7e00},
		{"signalling NaN with low payload", math.Float32frombits(0xff800001), 0xfe00},
		{"NaN with payload", math.Float32frombits(0x7f802000), 0x7e01},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, dequant.F32ToF16(tc.f)) })
	}
}

func TestBF16ToF32(t *testing.T) {
	for i := range 1 << 16 {
		if got := math.Float32bits(dequant.BF16ToF32(uint16(i))); got != uint32(i)<<16 {
			t.Fatalf("BF16ToF32(%#04x) has bits %#08x", i, got)
		}
	}
	require.Equal(t, float32(1), dequant.BF16ToF32(0x3f80))
	require.Equal(t, float32(-2.5), dequant.BF16ToF32(0xc020))
}

func BenchmarkF32ToF16(b *testing.B) {
	src := make([]float32, 1024)
	for i := range src {
		src[i] = float32(i-512) / 100
	}
	dst := make([]uint16, len(src))
	b.SetBytes(int64(4 * len(src)))
	for b.Loop() {
		for i, v := range src {
			dst[i] = dequant.F32ToF16(v)
		}
	}
}
