package main

import (
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progressDelay is how long a prompt may take before a bar shows up.
const progressDelay = time.Second

// A progress shows on a terminal how far the prompt's pass has come.
type progress struct {
	bars  *mpb.Progress
	bar   *mpb.Bar
	delay *time.Timer
}

// newProgress starts a bar on w. It runs until cleared.
func newProgress(w io.Writer) *progress {
	show := make(chan any)
	p := &progress{
		bars:  mpb.New(mpb.WithOutput(w), mpb.WithRefreshRate(100*time.Millisecond), mpb.WithRenderDelay(show)),
		delay: time.AfterFunc(progressDelay, func() { close(show) }),
	}
	// A bar without a total never completes by itself: it would stay.
	p.bar = p.bars.AddBar(0, mpb.BarWidth(40),
		mpb.PrependDecorators(decor.Name("prompt ")),
		mpb.AppendDecorators(decor.CountersNoUnit(" %d/%d blocks, "), decor.AverageETA(decor.ET_STYLE_GO), decor.Name(" left")),
	)
	return p
}

// set may be called from any goroutine.
func (p *progress) set(done, blocks int) {
	p.bar.SetTotal(int64(blocks), false)
	p.bar.SetCurrent(int64(done))
}

// clear removes the bar from the terminal and ends its goroutines.
func (p *progress) clear() {
	p.delay.Stop()
	p.bar.Abort(true)
	p.bars.Wait()
}

// newRunProgress starts a bar for so many runs on w.
func newRunProgress(w io.Writer, runs int) *progress {
	p := &progress{
		bars:  mpb.New(mpb.WithOutput(w), mpb.WithRefreshRate(100*time.Millisecond)),
		delay: time.NewTimer(0),
	}
	// It does not complete by itself, so that clear ends it in any case.
	p.bar = p.bars.AddBar(0, mpb.BarWidth(40),
		mpb.PrependDecorators(decor.Name("bench ")),
		mpb.AppendDecorators(decor.CountersNoUnit(" %d/%d runs, "), decor.AverageETA(decor.ET_STYLE_GO), decor.Name(" left")),
	)
	p.bar.SetTotal(int64(runs), false)
	return p
}
