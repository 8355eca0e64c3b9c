package compute

import (
	"unsafe"

	"github.com/layerpipe/layerpipe/model"
)

// ScratchBytes is the memory that a pass of so many tokens over a context of
// room positions takes besides weights, caches, hidden states and logits, when
// the model is cut into units.
func ScratchBytes(p *model.Params, unit model.Unit, threads, tokens, room int) int64 {
	tile := tokens
	if unit == model.UnitLayer {
		tile = min(tile, tileRows)
	}
	e := &p.Experts
	q, k, v := p.Heads*p.HeadDim, p.KVHeads*p.HeadDim, p.KVHeads*p.VDim
	mixed := p.Heads * max(p.VDim, p.OutDim)
	// Attention, with a fused product or the queries that will be absorbed.
	perRow := 2*p.Dim + q + k + v + mixed + max(q+k+v, p.Heads*(p.QueryDim+p.VDim), 2*p.FFN)
	if p.KVRank > 0 {
		perRow += p.QRank + 2*p.KVRank + p.Rope.Dim
	}
	if p.Absorbed { // what heads' matrices get and give, and that in another form
		perRow += 3 * p.Heads * max(p.KVRank, p.QueryDim, p.OutDim)
	}
	// The network and its experts: for each one that is chosen its input, gate, up
	// and output, and the inputs of its products in another form.
	perRow += 4*max(p.FFN, e.Shared) + e.Count + e.Used*(3*p.Dim+3*e.FFN+4)
	widest := max(p.FFN, e.Shared, mixed, p.Dim, p.QRank)
	floats := int64(tile)*int64(perRow+3*widest) + // 3: the inputs of products in up to three forms
		2*int64(tokens)*int64(p.Rope.Dim) +
		int64(threads)*int64(max(attendQueries, p.Heads/p.KVHeads))*int64(room+p.HeadDim+p.VDim)
	return 4*floats + int64(tokens)*int64(unsafe.Sizeof(row{}))
}
