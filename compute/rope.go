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

// A turning is a way to rotate, and the rotations of all rows of a pass, which
// the layers that turn so share.
type turning struct {
	ropeTable
	cos, sin []float32 // one a row and pair
}

// turnings are the ways to rotate of the layers that see all positions and of
// those that have a window; they may be the same.
type turnings struct{ global, windowed *turning }

func newTurnings(p *model.Params, factors []float32) turnings {
	g := &turning{ropeTable: newRopeTable(&p.Rope, factors)}
	if p.RopeWindow == p.Rope {
		return turnings{g, g}
	}
	return turnings{g, &turning{ropeTable: newRopeTable(&p.RopeWindow, factors)}}
}

// of returns how a layer with that window rotates.
func (t *turnings) of(window int) *turning {
	if window > 0 {
		return t.windowed
	}
	return t.global
}

// turn computes the rotations of rows.
func (t *turnings) turn(rows []row) {
	t.global.turn(rows)
	if t.windowed != t.global {
		t.windowed.turn(rows)
	}
}

func (t *turning) turn(rows []row) {
	half := len(t.angle)
	t.cos, t.sin = grow(t.cos, len(rows)*half), grow(t.sin, len(rows)*half)
	for i, r := range rows {
		t.at(r.pos, t.cos[i*half:][:half], t.sin[i*half:][:half])
	}
}

// rotate turns the heads of width dim that lie one after the other in x by the
// angles of row r. The elements before first stay.
func (t *turning) rotate(x []float32, dim int, p *model.Rope, r int) {
	half := len(t.angle)
	cos, sin := t.cos[r*half:][:half], t.sin[r*half:][:half]
	for ; len(x) > 0; x = x[dim:] {
		vec.Rope(x[p.First:dim], cos, sin, p.Neox)
	}
}

// newRopeTable follows ggml's rope (ggml_rope_cache_init): the angle of pair i
// is pos * base^(-2i/dim), divided by factors[i] if there are any, stretched
// as scaling says. For [model.ScalingLong] those factors are all: it is stretched
// by Factor as [model.ScalingLinear] is, which is 1 in its files.
func newRopeTable(r *model.Rope, factors []float32) ropeTable {
	t := ropeTable{angle: make([]float64, r.Dim/2), scale: 1}
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
	if r.InScores {
		return t
	}
	t.scale = r.AttnFactor
	if r.Scaling == model.ScalingYarn && r.Factor > 1 {
		t.scale *= float32(1 + float64(0.1*vec.Log64(float64(r.Factor))))
	}
	return t
}

// scoreScale is what the products of queries and keys are multiplied by.
func scoreScale(p *model.Params) float32 {
	if !p.Rope.InScores {
		return p.AttnScale
	}
	m := float64(p.Rope.AttnFactor) * (1 + float64(float64(p.Rope.LogMultiplier)*vec.Log64(float64(p.Rope.Factor))))
	return float32(float64(p.AttnScale) * float64(m*m))
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
