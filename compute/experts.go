package compute

import (
	"math"
	"slices"
	"unsafe"

	"github.com/layerpipe/layerpipe/compute/kernel"
	"github.com/layerpipe/layerpipe/compute/vec"
	"github.com/layerpipe/layerpipe/model"
)

// experts is the scratch of a layer with experts. A pair is a token and an
// expert that it has chosen. Pairs are sorted by expert, those of one expert by
// token, so that each expert's matrices are used once, for all its tokens.
//
// A token's result is the sum over its experts in the order of their numbers,
// whatever their weights: the same alone or among others.
type experts struct {
	scores  []float32 // tokens x experts: the router's products
	rank    []float32 // experts, and their groups: what they are chosen by
	choices []choice  // tokens x experts that each uses, by number
	input   []float32 // pairs x Dim
	out     []float32 // pairs x Dim
	groups  []group   // of pairs, for the experts that are used
	starts  []int     // scratch by expert

	// What addBiases works on: the biases, one row an expert, and what they are
	// added to.
	bias kernel.Matrix
	sums []float32
}

// A choice is an expert of a token.
type choice struct {
	expert, pair int
	weight       float32
}

// chosen sets the tile's output to what the experts make of its input that the
// router chooses for each token, and the shared one.
func (a *Actor) chosen(p *Pass, w *model.Layer) error {
	m, t, e := &a.model.Params, &a.tile, &a.tile.experts
	n, pairs, width := t.rows, t.rows*m.Experts.Used, m.Experts.FFN
	e.scores = grow(e.scores, n*m.Experts.Count)
	if err := a.product(p, e.scores, w[model.Router], w[model.RouterBias]); err != nil {
		return err
	}
	a.choose(w)
	a.gather()

	t.width = width
	t.gate, t.up, e.out = grow(t.gate, pairs*width), grow(t.up, pairs*width), grow(e.out, pairs*m.Dim)
	if err := a.expertProduct(p, t.gate, e.input, w[model.ExpertGate], w[model.ExpertGateBias]); err != nil {
		return err
	}
	if err := a.expertProduct(p, t.up, e.input, w[model.ExpertUp], w[model.ExpertUpBias]); err != nil {
		return err
	}
	a.team.Run(pairs, 1, a.run.gate)
	if err := a.expertProduct(p, e.out, t.gate, w[model.ExpertDown], w[model.ExpertDownBias]); err != nil {
		return err
	}
	a.team.Run(n, 1, a.run.mix)
	if w[model.SharedUp] == nil {
		return nil
	}
	out := e.out[:n*m.Dim] // its pairs have been added up
	if err := a.network(p, out, m.Experts.Shared, w[model.SharedGate], w[model.SharedUp], w[model.SharedDown]); err != nil {
		return err
	}
	if router := a.vectors[w[model.SharedRouter]]; router != nil {
		for i := range n {
			weight := [1]float32{vec.Dot(router, t.normed[i*m.Dim:][:m.Dim])}
			vec.Sigmoid(weight[:])
			vec.Scale(out[i*m.Dim:][:m.Dim], weight[0])
		}
	}
	vec.Add(t.out, out)
	return nil
}

// choose makes choices of the router's products, and weights for them, and
// groups the pairs by expert.
func (a *Actor) choose(w *model.Layer) {
	x, t, e := &a.model.Experts, &a.tile, &a.tile.experts
	bias := a.vectors[w[model.SelectBias]]
	e.choices = slices.Grow(e.choices[:0], t.rows*x.Used)[:t.rows*x.Used]
	e.rank = grow(e.rank, x.Count+x.Groups)
	for i := range t.rows {
		route(x, e.choices[i*x.Used:][:x.Used], e.scores[i*x.Count:][:x.Count], bias, e.rank)
	}

	e.starts = slices.Grow(e.starts[:0], x.Count)[:x.Count]
	clear(e.starts)
	for _, c := range e.choices {
		e.starts[c.expert]++
	}
	e.groups = e.groups[:0]
	first := 0
	for i, pairs := range e.starts {
		if pairs > 0 {
			e.groups = append(e.groups, group{i, first, pairs})
		}
		e.starts[i] = first
		first += pairs
	}
	for i := range e.choices { // in the order of tokens
		c := &e.choices[i]
		c.pair = e.starts[c.expert]
		e.starts[c.expert]++
	}
}

// route chooses for one token: the experts with the greatest probabilities, plus
// bias if there is one, of equals the first. It overwrites scores, and rank,
// which has room for experts and groups.
func route(x *model.Experts, choices []choice, scores, bias, rank []float32) {
	switch x.Routing {
	case model.RouteSoftmax:
		vec.Scale(scores, 1/vec.Softmax(scores))
	case model.RouteSigmoid:
		vec.Sigmoid(scores)
	}
	rank, sums := rank[:len(scores)], rank[len(scores):]
	copy(rank, scores)
	if bias != nil {
		vec.Add(rank, bias)
	}
	if x.Groups > 1 {
		dropGroups(x, rank, sums[:x.Groups])
	}
	for i := range choices {
		best := greatest(rank)
		choices[i] = choice{expert: best, weight: scores[best]}
		rank[best] = float32(math.Inf(-1))
	}
	slices.SortFunc(choices, func(a, b choice) int { return a.expert - b.expert })

	var sum float32
	switch {
	case x.Routing == model.RouteChosen:
		most := choices[0].weight
		for _, c := range choices {
			most = max(most, c.weight)
		}
		for i := range choices {
			y := [1]float32{choices[i].weight - most}
			vec.Exp(y[:], y[:])
			choices[i].weight = y[0]
			sum += y[0]
		}
	case x.Norm:
		for _, c := range choices {
			sum += c.weight
		}
	default:
		sum = 1
	}
	for i := range choices {
		choices[i].weight = float32(choices[i].weight / sum * x.Scale)
	}
}

// dropGroups leaves only the experts of some groups to be chosen: those with the
// greatest sums of the two that rank highest, of equals the first
// (https://arxiv.org/abs/2412.19437, section 2.1.2).
func dropGroups(x *model.Experts, rank, sums []float32) {
	n := len(rank) / x.Groups
	for g := range sums {
		members := rank[g*n:][:n]
		first := greatest(members)
		sums[g] = members[first]
		if n > 1 {
			v := members[first]
			members[first] = float32(math.Inf(-1))
			sums[g] += members[greatest(members)]
			members[first] = v
		}
	}
	for range x.Groups - x.GroupsUsed {
		least := -1
		for g, s := range sums {
			if s == s && (least < 0 || s <= sums[least]) {
				least = g
			}
		}
		if least < 0 {
			return // the others are NaNs, which must be noticed
		}
		sums[least] = float32(math.NaN())
		for i := range n {
			rank[least*n+i] = float32(math.Inf(-1))
		}
	}
}

// greatest returns the index of the greatest element, of equals the first. A NaN
// is greater than all others, so that it is noticed.
func greatest(x []float32) int {
	best := 0
	for i, v := range x {
		if b := x[best]; b == b && !(v <= b) {
			best = i
		}
	}
	return best
}

// gather copies the input of each pair.
func (a *Actor) gather() {
	t, e, dim, used := &a.tile, &a.tile.experts, a.model.Dim, a.model.Experts.Used
	e.input = grow(e.input, len(e.choices)*dim)
	for i, c := range e.choices {
		copy(e.input[c.pair*dim:][:dim], t.normed[i/used*dim:])
	}
}

// expertProduct sets the rows of dst, one a pair, to the product of the matrix
// of the pair's expert and the pair's row of x, plus the expert's bias if there
// are any.
func (a *Actor) expertProduct(p *Pass, dst, x []float32, w, bias *model.Tensor) error {
	e := &a.tile.experts
	if err := a.grouped(p, dst, x, w, a.model.Experts.Count, e.groups); err != nil || bias == nil {
		return err
	}
	var err error
	if e.bias, err = a.matrix(p, bias, 0); err != nil {
		return err
	}
	e.sums = dst
	a.team.Run(len(e.groups), 1, a.run.addBias)
	return a.faulted()
}

// addBiases adds the biases to the results of the pairs of groups [lo, hi).
func (a *Actor) addBiases(_, lo, hi int) {
	e := &a.tile.experts
	width := e.bias.Cols
	values := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(e.bias.Data))), e.bias.Rows*width)
	for _, g := range e.groups[lo:hi] {
		for i := g.first; i < g.first+g.rows; i++ {
			vec.Add(e.sums[i*width:][:width], values[g.part*width:])
		}
	}
}

// mixExperts adds up the experts' results of the tokens [lo, hi) of the tile.
func (a *Actor) mixExperts(_, lo, hi int) {
	t, e, dim, used := &a.tile, &a.tile.experts, a.model.Dim, a.model.Experts.Used
	for i := lo; i < hi; i++ {
		out := t.out[i*dim:][:dim]
		clear(out)
		for _, c := range e.choices[i*used:][:used] {
			vec.AddScaled(out, e.out[c.pair*dim:][:dim], c.weight)
		}
	}
}
