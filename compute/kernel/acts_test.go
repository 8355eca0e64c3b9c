package kernel

import (
	"bytes"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/stretchr/testify/require"
)

// The records are as the package comment defines them, from the vector kernels
// as from portable Go.
func TestQuantize(t *testing.T) {
	for _, typ := range []gguf.Type{gguf.Q4_0, gguf.Q4_K} {
		for _, tc := range activations {
			t.Run(typ.String()+"/"+tc.name, func(t *testing.T) {
				const k, n = 1024, 6
				rng := rand.New(rand.NewPCG(7, 7))
				x := make([]float32, n*k)
				for i := range x {
					x[i] = tc.at(rng, i%k)
				}
				a, portable := actsFor(typ, n, k, x), new(Acts)
				portable.Reset(typ, n, k)
				for c := range n {
					portable.quantizeGeneric(x[c*k:(c+1)*k], c)
				}
				used := map[form]int{form32: rec32Pairs + 4, form256: rec256D + 4}[a.form]
				size, block := recordSize[a.form], recordValues[a.form]
				for i := 0; i < len(a.recs); i += size {
					require.True(t, bytes.Equal(portable.recs[i:i+used], a.recs[i:i+used]), "record %d:\n% x\n% x",
						i/size, portable.recs[i:i+used], a.recs[i:i+used])
				}
				for c := range n {
					off, stride := a.column(c)
					for i := 0; i < k; i += block {
						checkRecord(t, a.form, a.recs[off+i/block*stride:][:size], x[c*k+i:][:block])
					}
				}
			})
		}
	}
}

// checkRecord computes anew what is in a record of activations x.
func checkRecord(t *testing.T, f form, rec []byte, x []float32) {
	var most float32
	finite := true
	for _, v := range x {
		most = max(most, float32(math.Abs(float64(v))))
		finite = finite && !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
	}
	d := most / 127
	id := 1 / d
	offD := map[form]int{form32: rec32D, form256: rec256D}[f]
	switch got := f32At(rec, offD); {
	case !finite:
		require.True(t, math.IsNaN(float64(got)))
		id = 0
	case d == 0 || math.IsInf(float64(id), 0):
		require.Zero(t, got)
		id = 0
	default:
		require.Equal(t, d, got)
	}
	sum := make([]int, len(x)/16)
	pairs := make([][2]int, len(x)/16)
	for i, v := range x {
		q := 0
		if id != 0 {
			q = int(math.RoundToEven(float64(float32(v * id))))
		}
		require.Equal(t, q, int(int8(rec[i])), "value %d: %v", i, v)
		sum[i/16] += q
		pairs[i/16][i%4/2] += q
	}
	if f == form32 {
		if finite {
			require.Equal(t, float32(f32At(rec, rec32D)*float32(sum[0]+sum[1])), f32At(rec, rec32DS))
		}
		for h := range 2 {
			require.Equal(t, -8*(pairs[0][h]+pairs[1][h]), int(int16At(rec, rec32Pairs+2*h)))
		}
		return
	}
	for i := range 16 {
		require.Equal(t, sum[i], int(int16At(rec, rec256S16+2*i)))
		require.Equal(t, sum[i&^1]+sum[i|1], int(int16At(rec, rec256S32+i&^1)))
		for h := range 2 {
			require.Equal(t, -32*pairs[i][h], int(int16At(rec, rec256Pairs+4*i+2*h)))
		}
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool forget")
	}
	forAllTypes(t, func(t *testing.T, typ gguf.Type) {
		const rows, k = 19, 512
		rng := rand.New(rand.NewPCG(8, 8))
		w, x := randomMatrix(rng, typ, rows, k), randomActs(rng, 9*k)
		var a Acts
		dst := make([]float32, 9*rows)
		require.Zero(t, testing.AllocsPerRun(50, func() {
			for _, n := range []int{9, 1, 3} {
				a.Reset(typ, n, k)
				a.Quantize(x, 0, n)
				Mul(dst, rows, w, &a, 0, rows)
			}
		}))
	})
}

// A team shares the columns when it quantizes and the rows when it multiplies.
func TestTeam(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ gguf.Type) {
		const rows, k, n = 67, 512, 10
		rng := rand.New(rand.NewPCG(9, 9))
		w, x := randomMatrix(rng, typ, rows, k), randomActs(rng, n*k)
		want, got := make([]float32, n*rows), make([]float32, n*rows)
		Mul(want, rows, w, actsFor(typ, n, k, x), 0, rows)

		var a Acts
		a.Reset(typ, n, k)
		var wg sync.WaitGroup
		for c := 0; c < n; c += 2 {
			wg.Go(func() { a.Quantize(x, c, min(c+2, n)) })
		}
		wg.Wait()
		for r := 0; r < rows; r += 16 {
			wg.Go(func() { Mul(got, rows, w, &a, r, min(r+16, rows)) })
		}
		wg.Wait()
		sameBits(t, want, got, "team")
	})
}
