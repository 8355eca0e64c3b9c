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
	perRow := 2*p.Dim + q + k + v + mixed + 2*max(p.FFN, e.Shared, e.Used*e.FFN)
	if p.Fused {
		perRow += max(q+k+v, 2*p.FFN)
	}
	if p.KVRank > 0 {
		perRow += p.QRank + 2*p.KVRank + p.Rope.Dim + p.Heads*(p.QueryDim+p.VDim)
	}
	if p.Absorbed { // what heads' matrices get and give, and that in another form
		perRow += 3 * p.Heads * max(p.KVRank, p.QueryDim, p.OutDim)
	}
	// For each expert that is chosen its input and output, and the inputs of its
	// products in another form.
	perRow += e.Count + e.Used*(2*p.Dim+max(p.Dim, e.FFN)+4)
	widest := max(p.FFN, e.Shared, mixed, p.Dim, p.QRank)
	turnings := int64(1)
	if p.RopeWindow != p.Rope {
		turnings = 2
	}
	floats := int64(tile)*int64(perRow+3*widest) + // 3: the inputs of products in up to three forms
		turnings*int64(tokens)*int64(p.Rope.Dim) +
		int64(threads)*int64(max(attendQueries, p.Heads/p.KVHeads))*int64(room+p.HeadDim+p.VDim)
	return 4*floats + int64(tokens)*int64(unsafe.Sizeof(row{}))
}
