package kernel

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/stretchr/testify/require"
)

// The definition of the products is a promise: these hashes of their bits are
// the same on every machine and must not change without a good reason, for the
// logits of every model change with them.
func TestGolden(t *testing.T) {
	want := map[gguf.Type]uint64{
		gguf.F32:    0xe8681227b525ad8a,
		gguf.F16:    0x01c509a176aa8a7b,
		gguf.BF16:   0xd92eaaf31e3444ab,
		gguf.Q4_0:   0xf1d192f51caff300,
		gguf.Q4_1:   0x97a23090078601bc,
		gguf.Q5_0:   0x9e7a086bb0f65e60,
		gguf.Q5_1:   0xc4bfaac7b04b92a8,
		gguf.Q8_0:   0xc0b4953d8b15a854,
		gguf.IQ4_NL: 0x012a8c4939c5c0af,
		gguf.MXFP4:  0xaf412ccac2117519,
		gguf.Q2_K:   0x16a16fe933ab182b,
		gguf.Q3_K:   0x63073cf1fa02a057,
		gguf.Q4_K:   0x96f8d22ad90780d3,
		gguf.Q5_K:   0xae22feb0e2aa47fd,
		gguf.Q6_K:   0xa064c24d14bfcbf4,
		gguf.IQ4_XS: 0xdbc1fbbc551b624b,

		gguf.IQ2_XXS: 0x489bbca5df064977,
		gguf.IQ2_XS:  0x53cf1d46776ab266,
		gguf.IQ2_S:   0xc017e6a862298391,
		gguf.IQ3_XXS: 0xb4532674b9dafead,
		gguf.IQ3_S:   0x6eed3a739531166f,
	}
	forAllTypes(t, func(t *testing.T, typ gguf.Type) {
		const rows, k, n = 21, 768, 9
		rng := rand.New(rand.NewPCG(12, uint64(typ)))
		w := &Matrix{Type: typ, Rows: rows, Cols: k, Data: make([]byte, rows*typ.RowBytes(k))}
		for i := range w.Data {
			w.Data[i] = byte(rng.Uint32())
		}
		scales := *w
		scales.Data = make([]byte, len(w.Data))
		for i := 0; i < len(w.Data); i += 2 { // magnitudes from 2^-14 to 2
			binary.LittleEndian.PutUint16(scales.Data[i:], uint16(rng.Uint32())&0xbfff|0x0400)
		}
		switch typ {
		case gguf.F32:
			for i := 3; i < len(w.Data); i += 4 {
				w.Data[i] = w.Data[i]&0x81 | 0x3c
			}
		case gguf.F16, gguf.BF16:
			for i := 1; i < len(w.Data); i += 2 {
				w.Data[i] = w.Data[i]&0x83 | 0x3c
			}
		case gguf.MXFP4:
			for i := 0; i < len(w.Data); i += 17 {
				w.Data[i] = w.Data[i]&7 | 0x70
			}
		default:
			keepScales(w, &scales)
		}
		x := make([]float32, n*k)
		for i := range x {
			x[i] = float32(int32(rng.Uint32())>>8) * 0x1p-20 // exact, in [-8, 8)
		}
		dst := make([]float32, n*rows)
		Mul(dst, rows, w, actsFor(typ, n, k, x), 0, rows)
		h := fnv.New64a()
		for _, v := range dst {
			require.False(t, v != v || math.IsInf(float64(v), 0), "%v", v)
			require.NoError(t, binary.Write(h, binary.LittleEndian, v))
		}
		require.Equal(t, want[typ], h.Sum64(), "gguf.%v: %#016x,", typ, h.Sum64())
	})
}
