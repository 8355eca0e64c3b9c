package compute

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// routed is what route must find, in float64, from its definition.
func routed(x *model.Experts, scores, bias []float32) map[int]float64 {
	p := make([]float64, len(scores))
	sum := 0.0
	for i, s := range scores {
		switch x.Routing {
		case model.RouteSoftmax:
			p[i] = math.Exp(float64(s))
			sum += p[i]
		case model.RouteSigmoid:
			p[i] = 1 / (1 + math.Exp(-float64(s)))
		default:
			p[i] = float64(s)
		}
	}
	order := make([]int, len(p))
	for i := range p {
		if order[i] = i; sum > 0 {
			p[i] /= sum
		}
	}
	biased := func(i int) float64 {
		if bias == nil {
			return p[i]
		}
		return p[i] + float64(bias[i])
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(biased(b), biased(a)) })
	weights := map[int]float64{}
	sum = 0
	for _, i := range order[:x.Used] {
		w := p[i]
		if x.Routing == model.RouteChosen {
			w = math.Exp(w)
		}
		weights[i] = w
		sum += w
	}
	for i, w := range weights {
		if x.Norm || x.Routing == model.RouteChosen {
			w /= sum
		}
		weights[i] = w * float64(x.Scale)
	}
	return weights
}

func TestRoute(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		x := &model.Experts{
			Count: 1 + r.IntN(40), Norm: r.IntN(2) == 0, Scale: 1,
			Routing: []model.Routing{model.RouteSoftmax, model.RouteSigmoid, model.RouteChosen}[r.IntN(3)],
		}
		x.Used = 1 + r.IntN(min(8, x.Count))
		if r.IntN(2) == 0 {
			x.Scale = 2.5
		}
		scores := make([]float32, x.Count)
		for i := range scores {
			scores[i] = float32(2 * r.NormFloat64())
		}
		var bias []float32
		if r.IntN(2) == 0 {
			for range scores {
				bias = append(bias, float32(r.NormFloat64()))
			}
		}
		want := routed(x, scores, bias)
		choices := make([]choice, x.Used)
		route(x, choices, scores, bias)
		last := -1
		for _, c := range choices {
			require.Greater(t, c.expert, last, "in the order of their numbers")
			last = c.expert
			require.Contains(t, want, c.expert)
			require.InDelta(t, want[c.expert], c.weight, 1e-5)
		}
	}
}

// Of equals the first is chosen, and a NaN is never lost.
func TestRouteTies(t *testing.T) {
	x := &model.Experts{Count: 5, Used: 2, Routing: model.RouteSigmoid, Scale: 1}
	choices := make([]choice, 2)
	route(x, choices, []float32{1, 3, 3, 3, 3}, nil)
	require.Equal(t, []int{1, 2}, []int{choices[0].expert, choices[1].expert})

	nan := float32(math.NaN())
	for i := range 5 {
		scores := []float32{1, 2, 3, 4, 5}
		scores[i] = nan
		route(x, choices, scores, nil)
		require.True(t, slices.ContainsFunc(choices, func(c choice) bool { return c.weight != c.weight }), "expert %d", i)
	}
	route(x, choices, []float32{nan, nan, nan, nan, nan}, nil)
	require.NotEqual(t, choices[0].expert, choices[1].expert)
}
