package synth

import (
	"encoding/binary"
	"math"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// A format says how random bytes become blocks of a type: the scale d is set so
// that the values have the size that is wanted, all else stays random. The
// layouts are those of ggml-common.h; package dequant describes them.
//
// The values must have the mean 0. Otherwise all outputs of a matrix have a
// part in common, which grows from layer to layer until nothing else is left.
// So blocks with a minimum get that which is in the middle of their values; and
// where quants lie from -8 to 7, the sign of d is random.
type format struct {
	rms float64 // root mean square of the values when d is 1
	d   int     // offset of d, binary16

	// With a minimum:
	min    int                // its offset, binary16
	center float64            // the minimum that d = 1 needs, as it is stored
	tie    func(block []byte) // makes the minimums of sub-blocks as large as their scales
}

// flat returns the root mean square of the integers from lo to hi.
func flat(lo, hi float64) float64 {
	n, mean := hi-lo+1, (lo+hi)/2
	return math.Sqrt((n*n-1)/12 + mean*mean)
}

// iq4RMS is the root mean square of the values of a nibble in the types IQ4
// (kvalues_iq4nl in ggml-common.h).
const iq4RMS = 67.44

// oddRMS is the root mean square of the odd numbers from 1 to 31, which a scale
// of four bits stands for in the types IQ2 and IQ3. Their grids (iq2xxs_grid,
// iq2xs_grid and so on in ggml-common.h) have those below.
const (
	oddRMS    = 18.47
	iq2XXSRMS = 23.12
	iq2XSRMS  = 24.22
	iq2SRMS   = 24.43
	iq3XXSRMS = 30.85
	iq3SRMS   = 7.594
)

var formats = map[gguf.Type]format{
	gguf.Q4_0:   {rms: flat(-8, 7), d: 0},
	gguf.Q4_1:   {rms: flat(-7.5, 7.5), d: 0, min: 2, center: -7.5},
	gguf.Q5_0:   {rms: flat(-16, 15), d: 0},
	gguf.Q5_1:   {rms: flat(-15.5, 15.5), d: 0, min: 2, center: -15.5},
	gguf.Q8_0:   {rms: flat(-128, 127), d: 0},
	gguf.IQ4_NL: {rms: iq4RMS, d: 0},
	gguf.IQ4_XS: {rms: flat(-32, 31) * iq4RMS, d: 0},
	gguf.Q2_K:   {rms: flat(8, 15) * flat(-1.5, 1.5), d: 80, min: 82, center: 1.5, tie: tieNibbles},
	gguf.Q3_K:   {rms: flat(-32, 31) * flat(-4, 3), d: 108},
	gguf.Q4_K:   {rms: flat(32, 63) * flat(-7.5, 7.5), d: 0, min: 2, center: 7.5, tie: tieSixes},
	gguf.Q5_K:   {rms: flat(32, 63) * flat(-15.5, 15.5), d: 0, min: 2, center: 15.5, tie: tieSixes},
	gguf.Q6_K:   {rms: flat(-128, 127) * flat(-32, 31), d: 208},

	gguf.IQ2_XXS: {rms: oddRMS / 8 * iq2XXSRMS, d: 0},
	gguf.IQ2_XS:  {rms: oddRMS / 8 * iq2XSRMS, d: 0},
	gguf.IQ2_S:   {rms: oddRMS / 8 * iq2SRMS, d: 0},
	gguf.IQ3_XXS: {rms: oddRMS / 4 * iq3XXSRMS, d: 0},
	gguf.IQ3_S:   {rms: oddRMS * iq3SRMS, d: 0},
}

// tieNibbles sets the scales of Q2_K, in the lower halves of 16 bytes, to 8 to
// 15, and the minimums in the upper halves to the same.
func tieNibbles(b []byte) {
	const low = 0x0f0f0f0f0f0f0f0f
	for i := 0; i < 16; i += 8 {
		s := binary.LittleEndian.Uint64(b[i:])&low | 0x0808080808080808
		binary.LittleEndian.PutUint64(b[i:], s|s<<4)
	}
}

// tieSixes sets the scales of Q4_K and Q5_K to 32 to 63, and the minimums to
// the same. Bytes 4 to 7 have four scales and the upper two bits of four more,
// bytes 8 to 11 the same of the minimums; bytes 12 to 15 have the lower halves
// of the last four scales, and of the minimums above.
func tieSixes(b []byte) {
	s := binary.LittleEndian.Uint32(b[4:]) | 0xa0a0a0a0
	low := binary.LittleEndian.Uint32(b[12:]) & 0x0f0f0f0f
	binary.LittleEndian.PutUint32(b[4:], s)
	binary.LittleEndian.PutUint32(b[8:], s)
	binary.LittleEndian.PutUint32(b[12:], low|low<<4)
}

// shaper returns the function that makes blocks of type t, whose values have
// the root mean square rms, out of random bytes, a multiple of step. What is
// behind the last whole block stays as it is.
func shaper(t gguf.Type, rms float64) func([]byte) {
	switch t {
	case gguf.F32:
		const ones = 1<<32 + 1
		return octave(0x807fffff*ones, uint64(math.Float32bits(float32(rms/octaveRMS)))*ones)
	case gguf.F16:
		const ones = 1<<48 + 1<<32 + 1<<16 + 1
		return octave(0x83ff*ones, uint64(half(rms/octaveRMS))*ones)
	case gguf.BF16:
		const ones = 1<<48 + 1<<32 + 1<<16 + 1
		return octave(0x807f*ones, uint64(math.Float32bits(float32(rms/octaveRMS))>>16)*ones)
	case gguf.MXFP4:
		return shapeMXFP4(rms)
	}
	f, ok := formats[t]
	if !ok {
		panic("synth: no blocks of type " + t.String())
	}
	size, d := t.BlockBytes(), half(rms/f.rms)
	if f.center == 0 {
		return func(p []byte) {
			for ; len(p) >= size; p = p[size:] {
				at := p[f.d : f.d+2]
				sign := binary.LittleEndian.Uint16(at) & 0x8000
				binary.LittleEndian.PutUint16(at, d|sign)
			}
		}
	}
	floor := half(f.center * rms / f.rms)
	return func(p []byte) {
		for ; len(p) >= size; p = p[size:] {
			binary.LittleEndian.PutUint16(p[f.d:], d)
			binary.LittleEndian.PutUint16(p[f.min:], floor)
			if f.tie != nil {
				f.tie(p[:size])
			}
		}
	}
}

// octaveRMS is the root mean square of evenly spaced numbers from 1 to 2, or
// what is nearly the same: of the floats in an octave, wherever it starts.
const octaveRMS = 1.49

// octave makes floats of random bits: those in mask, which are the sign and the
// mantissa, are added to the bits of the smallest magnitude. The magnitudes fill
// the octave above it, for a carry goes into the exponent. Eight bytes hold two
// or four floats.
func octave(mask, least uint64) func([]byte) {
	return func(p []byte) {
		for ; len(p) >= step; p = p[step:] {
			q := p[:step]
			for i := 0; i < step; i += 8 {
				binary.LittleEndian.PutUint64(q[i:], binary.LittleEndian.Uint64(q[i:])&mask+least)
			}
		}
	}
}

// shapeMXFP4 mixes two neighbouring powers of two as scales, since no other
// scales exist.
func shapeMXFP4(rms float64) func([]byte) {
	const values = 2.926 // root mean square of 0, 0.5, 1, 1.5, 2, 3, 4 and 6
	_, exp := math.Frexp(rms / values)
	least := math.Ldexp(0.5, exp) // at most rms/values, which is less than twice that
	square := rms / values / least
	square *= square // of 1 to 4; in a statement of its own it is not fused
	share := (square - 1) / 3
	threshold, e := byte(share*256), byte(exp-1+127)
	return func(p []byte) {
		for size := gguf.MXFP4.BlockBytes(); len(p) >= size; p = p[size:] {
			scale := e
			if p[0] < threshold {
				scale++
			}
			p[0] = scale
		}
	}
}

// half returns x, whose magnitude is below 65504, as binary16. Numbers that are
// not subnormal are rounded toward zero.
func half(x float64) uint16 {
	b := math.Float32bits(float32(math.Abs(x)))
	h := uint16((b - 112<<23) >> 13)
	if b < 113<<23 {
		h = uint16(math.Round(math.Abs(x) * (1 << 24)))
	}
	if x < 0 {
		h |= 0x8000
	}
	return h
}
