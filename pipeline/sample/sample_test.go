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
		{"typical", sample.Config{Temperature: 1, Typical: 0.2}, []int32{3}},   // expected x = -0.52; nearest is 2-3 = -1
		{"more typical", sample.Config{Temperature: 1, Typical: 0.3}, []int32{1, 3}},
		{"all typical", sample.Config{Temperature: 1, Typical: 1}, []int32{0, 1, 2, 3}},
		{"top-k, then typical", sample.Config{Temperature: 1, TopK: 2, Typical: 0.5}, []int32{1}}, // of 0.73 and 0.27 the expected x is -0.27
		{"forbidden", sample.Config{Temperature: 1, Typical: 0.999, Bias: map[int32]float32{1: float32(math.Inf(-1))}}, []int32{0, 2, 3}},
		{"bias of a token that is not there", sample.Config{Temperature: 1, Bias: map[int32]float32{99: 1}}, []int32{0, 1, 2, 3}},
		{"mirostat lets the likeliest through", sample.Config{Temperature: 1, Mirostat: 0.001, MirostatRate: 1e-9}, []int32{1}},
		{"mirostat instead of filters", sample.Config{Temperature: 1, TopK: 1, Typical: 0.1, TopP: 0.1, MinP: 1, Mirostat: 50}, []int32{0, 1, 2, 3}},
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

// penalized returns what logits become after the sampler has seen tokens.
func penalized(t *testing.T, c sample.Config, seen []int32, logits ...float32) []float32 {
	s, err := sample.New(c)
	require.NoError(t, err)
	for _, id := range seen {
		s.Accept(id)
	}
	_, err = s.Next(logits)
	require.NoError(t, err)
	return logits
}

func TestPenalties(t *testing.T) {
	for _, tc := range []struct {
		name   string
		c      sample.Config
		seen   []int32
		logits []float32
		want   []float32
	}{
		{"none", sample.Config{RepeatWindow: 2}, []int32{0}, []float32{9, 5}, []float32{9, 5}},
		{"repeat divides what is positive", sample.Config{RepeatPenalty: 2}, []int32{0, 0}, []float32{9, 5}, []float32{4.5, 5}},
		{"repeat multiplies what is negative", sample.Config{RepeatPenalty: 2}, []int32{0}, []float32{-3, -5}, []float32{-6, -5}},
		{"presence counts once", sample.Config{PresencePenalty: 0.5}, []int32{1, 1, 1}, []float32{9, 5}, []float32{9, 4.5}},
		{"frequency counts all", sample.Config{FrequencyPenalty: 0.5}, []int32{1, 1, 1, 0}, []float32{9, 5}, []float32{8.5, 3.5}},
		{"repeat goes first", sample.Config{RepeatPenalty: 2, FrequencyPenalty: 1, PresencePenalty: 0.25}, []int32{0}, []float32{8, 0}, []float32{2.75, 0}},
		{"bias before the penalties", sample.Config{RepeatPenalty: 2, Bias: map[int32]float32{0: 1, 1: -3}}, []int32{0, 1}, []float32{9, 2}, []float32{5, -2}},
		{"out of the window", sample.Config{RepeatPenalty: 2, RepeatWindow: 2}, []int32{0, 0, 0, 1, 1}, []float32{9, 5}, []float32{9, 2.5}},
		{"partly out of the window", sample.Config{FrequencyPenalty: 1, RepeatWindow: 3}, []int32{0, 0, 0, 1}, []float32{9, 5}, []float32{7, 4}},
		{"the window has 64", sample.Config{PresencePenalty: 1}, slices.Concat([]int32{0}, slices.Repeat([]int32{1}, 64)), []float32{9, 5}, []float32{9, 4}},
		{"not in the vocabulary", sample.Config{PresencePenalty: 1}, []int32{7}, []float32{9, 5}, []float32{9, 5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, penalized(t, tc.c, tc.seen, tc.logits...))
		})
	}
}

// Mirostat holds the average surprise at the wanted number of bits, measured as
// it does, within the tokens that it lets through.
func TestMirostat(t *testing.T) {
	const n, words = 5000, 500
	logits := make([]float32, words)
	var sum float64
	for i := range logits {
		logits[i] = float32(-math.Log(float64(i + 1))) // p falls as 1/rank, as words do
		sum += 1 / float64(i+1)
	}
	for _, want := range []float64{2, 5} {
		counts := draw(t, sample.Config{Temperature: 1, Mirostat: float32(want), MirostatRate: 0.05, Seed: 5}, logits, n)
		var entropy float64
		for _, k := range counts {
			entropy -= float64(k) / n * math.Log2(float64(k)/n)
		}
		require.InDelta(t, want, entropy, 0.25, "the choices have about as many bits")
		require.Less(t, len(counts), words)
	}
}

func TestSeed(t *testing.T) {
	logits := make([]float32, 300)
	for i := range logits {
		logits[i] = float32(i%17) / 3
	}
	sequence := func(c sample.Config) (ids []int32) {
		s, err := sample.New(c)
		require.NoError(t, err)
		for range 50 {
			id, err := s.Next(slices.Clone(logits))
			require.NoError(t, err)
			s.Accept(id)
			ids = append(ids, id)
		}
		return ids
	}
	for name, c := range map[string]sample.Config{
		"all steps": {
			Temperature: 0.9, RepeatPenalty: 1.1, FrequencyPenalty: 0.1, PresencePenalty: 0.1, TopK: 40, Typical: 0.9, TopP: 0.95, MinP: 0.02,
			Bias: map[int32]float32{1: 2, 2: -1, 3: 0.5, 4: float32(math.Inf(-1))}, Seed: 1,
		},
		"mirostat": {Temperature: 0.9, Mirostat: 5, Seed: 1},
	} {
		first := sequence(c)
		require.Equal(t, first, sequence(c), name)
		c.Seed = 2
		require.NotEqual(t, first, sequence(c), name)
	}
}

func TestRefused(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []sample.Config{
		{Temperature: -1}, {Temperature: nan}, {TopK: -1}, {TopP: 1.1}, {TopP: nan}, {MinP: -0.1}, {RepeatPenalty: -1}, {RepeatWindow: -1},
		{Typical: 2}, {Typical: nan}, {FrequencyPenalty: nan}, {PresencePenalty: 101}, {Mirostat: -1}, {MirostatRate: nan},
		{Bias: map[int32]float32{-1: 1}}, {Bias: map[int32]float32{1: nan}}, {Bias: map[int32]float32{1: float32(math.Inf(1))}},
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
		"typical": {Temperature: 0.8, TopK: 40, Typical: 0.9}, "mirostat": {Temperature: 0.8, Mirostat: 5},
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
