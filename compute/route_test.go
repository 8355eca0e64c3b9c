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
	if x.Groups > 1 {
		n := len(p) / x.Groups
		groups := make([]int, x.Groups)
		sum := func(g int) float64 {
			m := order[g*n:][:n:n]
			m = slices.Clone(m)
			slices.SortFunc(m, func(a, b int) int { return cmp.Compare(biased(b), biased(a)) })
			s := biased(m[0])
			if n > 1 {
				s += biased(m[1])
			}
			return s
		}
		for g := range groups {
			groups[g] = g
		}
		slices.SortStableFunc(groups, func(a, b int) int { return cmp.Compare(sum(b), sum(a)) })
		kept := groups[:x.GroupsUsed]
		order = slices.DeleteFunc(slices.Clone(order), func(i int) bool { return !slices.Contains(kept, i/n) })
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
		if r.IntN(2) == 0 { // in groups
			x.Groups = 2 + r.IntN(6)
			x.GroupsUsed = 1 + r.IntN(x.Groups)
			x.Count = x.Groups * (1 + r.IntN(8))
			x.Used = 1 + r.IntN(min(8, x.GroupsUsed*x.Count/x.Groups))
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
		route(x, choices, scores, bias, make([]float32, x.Count+x.Groups))
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
	choices, rank := make([]choice, 2), make([]float32, 5)
	route(x, choices, []float32{1, 3, 3, 3, 3}, nil, rank)
	require.Equal(t, []int{1, 2}, []int{choices[0].expert, choices[1].expert})

	nan := float32(math.NaN())
	for i := range 5 {
		scores := []float32{1, 2, 3, 4, 5}
		scores[i] = nan
		route(x, choices, scores, nil, rank)
		require.True(t, slices.ContainsFunc(choices, func(c choice) bool { return c.weight != c.weight }), "expert %d", i)
	}
	route(x, choices, []float32{nan, nan, nan, nan, nan}, nil, rank)
	require.NotEqual(t, choices[0].expert, choices[1].expert)

	x = &model.Experts{Count: 6, Used: 2, Routing: model.RouteChosen, Scale: 1, Groups: 3, GroupsUsed: 1}
	rank = make([]float32, 9)
	route(x, choices, []float32{1, 2, 3, 1, 2, 2}, nil, rank)
	require.Equal(t, []int{2, 3}, []int{choices[0].expert, choices[1].expert}, "of groups with equal sums the first")
	route(x, choices, []float32{1, 2, 3, nan, 9, 9}, nil, rank)
	require.Equal(t, []int{2, 3}, []int{choices[0].expert, choices[1].expert})
}
