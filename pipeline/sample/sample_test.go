package sample_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/pipeline/sample"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// draw counts which tokens a configuration chooses from logits in n draws.
func draw(t *testing.T, c sample.Config, logits []float32, n int) map[int32]int {
	s, err := sample.New(c)
	require.NoError(t, err)
	counts := map[int32]int{}
	for range n {
		id, err := s.Next(slices.Clone(logits))
		require.NoError(t, err)
		counts[id]++
	}
	return counts
}

func TestGreedy(t *testing.T) {
	require.Equal(t, map[int32]int{2: 5}, draw(t, sample.Config{Seed: 3}, []float32{1, 2, 9, 9, -1}, 5), "the first of equals")
}

// Draws follow the probabilities: exp(logit/temperature), of the tokens that
// the filters leave.
func TestDistribution(t *testing.T) {
	logits := []float32{0, 3, 1, 2}
	for _, tc := range []struct {
		name string
		c    sample.Config
		kept []int32
	}{
		{"all", sample.Config{Temperature: 1}, []int32{0, 1, 2, 3}},
		{"cold", sample.Config{Temperature: 0.5}, []int32{0, 1, 2, 3}},
		{"hot", sample.Config{Temperature: 3}, []int32{0, 1, 2, 3}},
		{"top-k", sample.Config{Temperature: 1, TopK: 2}, []int32{1, 3}},
		{"top-k beyond all", sample.Config{Temperature: 1, TopK: 9}, []int32{0, 1, 2, 3}},
		{"top-p", sample.Config{Temperature: 1, TopP: 0.8}, []int32{1, 3}},     // 0.644 + 0.237 = 0.881
		{"small top-p", sample.Config{Temperature: 1, TopP: 0.01}, []int32{1}}, // never none
		{"min-p", sample.Config{Temperature: 1, MinP: 0.13}, []int32{1, 2, 3}}, // exp(-2) = 0.135
		{"min-p of one", sample.Config{Temperature: 1, MinP: 1}, []int32{1}},   //
		{"filters see no temperature", sample.Config{Temperature: 50, TopP: 0.8}, []int32{1, 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const n = 5000
			counts := draw(t, tc.c, logits, n)
			var sum float64
			for _, id := range tc.kept {
				sum += math.Exp(float64(logits[id] / tc.c.Temperature))
			}
			require.Len(t, counts, len(tc.kept))
			for _, id := range tc.kept {
				p := math.Exp(float64(logits[id]/tc.c.Temperature)) / sum
				require.InDelta(t, p, float64(counts[id])/n, 5*math.Sqrt(p*(1-p)/n)+1e-9, "token %d", id)
			}
		})
	}
}

// Choosing the K largest of many gives what sorting all of them would.
func TestTopKOfMany(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	logits := make([]float32, 1000)
	for i := range logits {
		logits[i] = float32(rng.IntN(60)) // many equals
	}
	for _, k := range []int{1, 2, 40, 500, 999} {
		order := make([]int32, len(logits))
		for i := range order {
			order[i] = int32(i)
		}
		slices.SortStableFunc(order, func(a, b int32) int { return int(logits[b] - logits[a]) })
		for id := range draw(t, sample.Config{Temperature: 100, TopK: k}, logits, 300) {
			require.Contains(t, order[:k], id)
		}
	}
}

func TestRepeatPenalty(t *testing.T) {
	s, err := sample.New(sample.Config{RepeatPenalty: 2, RepeatWindow: 2})
	require.NoError(t, err)
	next := func(logits ...float32) int32 {
		id, err := s.Next(logits)
		require.NoError(t, err)
		return id
	}
	s.Accept(0)
	s.Accept(0)
	require.EqualValues(t, 1, next(9, 5), "9/2 < 5, and twice in the window counts once")
	require.EqualValues(t, 1, next(-3, -5), "-3*2 < -5")
	s.Accept(1)
	s.Accept(1)
	require.EqualValues(t, 0, next(9, 5), "0 has left the window")
}

func TestRefused(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []sample.Config{
		{Temperature: -1}, {Temperature: nan}, {TopK: -1}, {TopP: 1.1}, {TopP: nan}, {MinP: -0.1}, {RepeatPenalty: -1}, {RepeatWindow: -1},
	} {
		_, err := sample.New(c)
		require.Error(t, err, c)
	}
	s, err := sample.New(sample.Config{Temperature: 1})
	require.NoError(t, err)
	inf := float32(math.Inf(1))
	for _, logits := range [][]float32{{}, {1, nan}, {-inf, -inf}, {1, inf}} {
		_, err := s.Next(logits)
		require.ErrorIs(t, err, sample.ErrLogits, logits)
	}
}

func BenchmarkNext(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	logits := make([]float32, 128256)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	for name, c := range map[string]sample.Config{
		"greedy": {}, "top-k 40": {Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05}, "all": {Temperature: 0.8},
	} {
		b.Run(name, func(b *testing.B) {
			s, err := sample.New(c)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = s.Next(logits)
			}
		})
	}
}
