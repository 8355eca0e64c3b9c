package compute

import (
	"math"

	"github.com/layerpipe/layerpipe/compute/vec"
	"github.com/layerpipe/layerpipe/model"
)

// ropeTable holds the angle that each pair of a head turns by per position, and
// the factor of the magnitude.
type ropeTable struct {
	angle []float64
	scale float32
}

// newRopeTable follows ggml's rope (ggml_rope_cache_init): the angle of pair i
// is pos * base^(-2i/dim), divided by factors[i] if there are any, stretched
// as scaling says.
func newRopeTable(r *model.Rope, factors []float32) ropeTable {
	t := ropeTable{angle: make([]float64, r.Dim/2), scale: r.AttnFactor}
	interpolate := 1 / float64(r.Factor)
	lnBase := vec.Log64(float64(r.Base))
	low, high := yarnRange(r, lnBase)
	for i := range t.angle {
		a := vec.Exp64(-float64(2*i) / float64(r.Dim) * lnBase)
		if factors != nil {
			a /= float64(factors[i])
		}
		stretch := interpolate
		if r.Scaling == model.ScalingYarn {
			// 1 keeps a fast pair as it was trained, 0 interpolates a slow one.
			keep := 1 - min(1, max(0, (float64(i)-low)/max(0.001, high-low)))
			stretch = float64(interpolate*(1-keep)) + keep
		}
		t.angle[i] = a * stretch
	}
	if r.Scaling == model.ScalingYarn && r.Factor > 1 {
		t.scale *= float32(1 + float64(0.1*vec.Log64(float64(r.Factor))))
	}
	return t
}

// yarnRange gives the pairs between which YaRN blends: those that turn
// BetaFast and BetaSlow times within the original context
// (https://arxiv.org/abs/2309.00071, section 3.2).
func yarnRange(r *model.Rope, lnBase float64) (low, high float64) {
	pair := func(turns float64) float64 {
		return float64(r.Dim) * vec.Log64(float64(r.OrigContext)/(turns*2*math.Pi)) / (2 * lnBase)
	}
	low = math.Floor(pair(float64(r.BetaFast)))
	high = math.Ceil(pair(float64(r.BetaSlow)))
	return max(0, low), min(float64(r.Dim-1), high)
}

// at writes the cosines and sines of position pos, one a pair.
func (t *ropeTable) at(pos int, cos, sin []float32) {
	for i, a := range t.angle {
		s, c := vec.SinCos64(float64(pos) * a)
		cos[i], sin[i] = float32(c)*t.scale, float32(s)*t.scale
	}
}
