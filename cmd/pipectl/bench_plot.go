package main

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The colours of the bars can be told apart by those who see few colours, too.
var (
	colourSpeed      = color.RGBA{R: 0x44, G: 0x77, B: 0xAA, A: 0xFF}
	colourArithmetic = color.RGBA{R: 0x22, G: 0x88, B: 0x33, A: 0xFF}
	colourStall      = color.RGBA{R: 0xEE, G: 0x66, B: 0x77, A: 0xFF}
	colourOther      = color.RGBA{R: 0xBB, G: 0xBB, B: 0xBB, A: 0xFF}
)

// plot draws two charts, one above the other: tokens per second, and where the
// time of a pass went.
func (r *benchReport) plot(w io.Writer) error {
	results := r.measured()
	names := make([]string, len(results))
	var speed, arithmetic, stall, other plotter.Values
	for i, x := range results {
		names[i] = x.Way + "\n" + x.Cache
		speed = append(speed, x.TokensPerSecond.Median)
		arithmetic = append(arithmetic, 1e3*x.Pass.Arithmetic)
		stall = append(stall, 1e3*x.Pass.Stall)
		other = append(other, 1e3*x.Pass.Other)
	}
	upper, lower := plot.New(), plot.New()
	upper.Title.Text = fmt.Sprintf("%s: speed", r.Model)
	upper.Y.Label.Text = "tokens/s"
	lower.Title.Text = "where the time of a pass goes"
	lower.Y.Label.Text = "ms"
	bar := func(p *plot.Plot, values plotter.Values, c color.Color, below *plotter.BarChart, legend string) (*plotter.BarChart, error) {
		b, err := plotter.NewBarChart(values, vg.Points(28))
		if err != nil {
			return nil, err
		}
		b.Color, b.LineStyle.Width = c, 0
		if below != nil {
			b.StackOn(below)
		}
		p.Add(b)
		if legend != "" {
			p.Legend.Add(legend, b)
		}
		return b, nil
	}
	if _, err := bar(upper, speed, colourSpeed, nil, ""); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	var below *plotter.BarChart
	for _, part := range []struct {
		values plotter.Values
		colour color.Color
		legend string
	}{{arithmetic, colourArithmetic, "arithmetic"}, {stall, colourStall, "waiting for blocks"}, {other, colourOther, "between passes"}} {
		var err error
		if below, err = bar(lower, part.values, part.colour, below, part.legend); err != nil {
			return fmt.Errorf("plot: %w", err)
		}
	}
	lower.Legend.Top = true
	for _, p := range []*plot.Plot{upper, lower} {
		p.NominalX(names...)
		p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5
		p.Y.Min = 0
		p.Y.Max *= 1.15 // room for the legend
	}
	canvas := vgsvg.New(vg.Points(float64(120+62*len(names))), vg.Points(560))
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadX: vg.Points(8), PadY: vg.Points(8)}
	aligned := plot.Align([][]*plot.Plot{{upper}, {lower}}, tiles, draw.New(canvas))
	upper.Draw(aligned[0][0])
	lower.Draw(aligned[1][0])
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}
