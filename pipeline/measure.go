package pipeline

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/compute/kernel"
	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/model/gguf"
)

// Rates are how fast the machine is, in bytes of weights a second.
type Rates struct {
	Storage  float64 `json:"storage_bytes_per_second"`
	Measured bool    `json:"storage_measured"` // on the model's file, and not assumed
	// Cached says that Storage is how fast the page cache gives what it holds, as it
	// does from the second pass on: there is room for the file.
	Cached          bool    `json:"storage_is_page_cache,omitempty"`
	Compute         float64 `json:"compute_bytes_per_second"`
	ComputeMeasured bool    `json:"compute_measured"` // with the model's types and threads, and not assumed
	// Expand is how fast weights become floats for which there is no kernel, or none
	// is wanted. It is measured with Compute.
	Expand float64 `json:"expand_bytes_per_second"`
}

// defaultRates are used where nothing has been measured: an ordinary solid
// state disk, some 6 GB/s for each thread, and 0.3 GB/s for the dequantizer.
func defaultRates(threads int) Rates {
	return Rates{Storage: 1.5e9, Compute: 6e9 * float64(threads), Expand: 0.3e9}
}

// measure replaces what p assumes of the machine by what it measures, for a plan
// that streams. What cannot be measured is assumed on, and returned as a warning.
func (p *planner) measure(ctx context.Context, plan *Plan) (warning error, err error) {
	c := p.config
	if c.backend.device || c.planned {
		warning = p.measureStorage(ctx, plan)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	if c.planned {
		p.measureCompute()
	}
	return warning, nil
}

// measureStorage measures the model's file the way that it will be read.
func (p *planner) measureStorage(ctx context.Context, plan *Plan) error {
	c, f := p.config, p.model.File
	path, size := f.Paths[f.Largest()], f.Sizes[f.Largest()]
	switch {
	case c.backend.device:
		if c.probe == nil {
			probe, err := ioactor.Probe(ctx, path, ioactor.ProbeOptions{Time: 300 * time.Millisecond})
			if err != nil {
				return err
			}
			if probe.BytesPerSecond <= 0 {
				return errors.New("the clock is too coarse")
			}
			c.probe = &probe
		}
		p.rates.Storage, p.rates.Measured = c.probe.BytesPerSecond, true
	case c.backend.buffered:
		backend, err := c.backend.opener([]string{path}, c.storage)
		if err != nil {
			return err
		}
		fits := plan.available == 0 || fileBytes(p.model) <= plan.available-plan.Total
		rate, err := ioactor.Rate(ctx, backend, size, fits)
		if err = errors.Join(err, backend.Close()); err != nil {
			return err
		}
		p.rates.Storage, p.rates.Measured, p.rates.Cached = rate, true, fits
	}
	return nil
}

// measureCompute measures products with the types of weights that the model
// mostly has, and making floats of those that need it. Nothing else of the plan
// has been taken yet, so half of what it may take can be used for it.
func (p *planner) measureCompute() {
	room := int64(1) << 62
	if p.ceiling > 0 {
		room = (p.ceiling - p.base) / 2
	}
	sizes := map[gguf.Type]int64{}
	var total int64
	for i := range p.model.Blocks {
		for _, t := range p.model.Blocks[i].Tensors {
			sizes[t.Type] += t.Size
			total += t.Size
		}
	}
	var all, products, expanded, expanding float64 // bytes and seconds of the types that are measured
	float := sync.OnceValue(func() float64 { return compute.Rate(gguf.F32, p.config.threads, room) })
	for t, n := range sizes {
		kept := kernel.Supported(t) && !p.config.expand
		if !kept {
			expanded += float64(n)
			expanding += float64(n) / dequant.Rate(t)
		}
		if n < total/20 {
			continue
		}
		var rate float64
		if kept {
			rate = compute.Rate(t, p.config.threads, room)
		} else { // it is multiplied as float
			const columns = 1 << 10 // a multiple of every block
			rate = float() * float64(t.RowBytes(columns)) / (4 * columns)
		}
		if rate <= 0 {
			return
		}
		all, products = all+float64(n), products+float64(n)/rate
	}
	if products > 0 {
		p.rates.Compute, p.rates.ComputeMeasured = all/products, true
	}
	if expanding > 0 {
		p.rates.Expand = expanded / expanding
	}
}
