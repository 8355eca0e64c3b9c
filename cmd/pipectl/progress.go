package main

import (
	"cmp"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/layerpipe/layerpipe/pipeline"
)

// progressFlag says how progress is shown: "" is a bar on a terminal, and
// nothing elsewhere.
type progressFlag string

const progressJSON progressFlag = "json"

func (f *progressFlag) add(cmd *cobra.Command) {
	addParsed(cmd.Flags(), f, "progress", "", "show progress as `FORM` json: lines on standard error, each an object (default a bar on a terminal)", func(s string) (progressFlag, error) {
		if p := progressFlag(s); p == progressJSON {
			return p, nil
		}
		return "", fmt.Errorf("must be %s", progressJSON)
	})
	_ = cmd.RegisterFlagCompletionFunc("progress", cobra.FixedCompletions([]string{string(progressJSON)}, cobra.ShellCompDirectiveNoFileComp))
}

// The phases of work, as programs read them.
const (
	phaseProbe      = "probe"      // the storage is measured
	phaseLoad       = "load"       // blocks that are to stay in memory come, as the first pass computes
	phasePrompt     = "prompt"     // a prompt goes through the blocks, once for each chunk of it
	phaseTokens     = "tokens"     // a sequence is computed
	phasePerplexity = "perplexity" // a text is scored
	phaseBench      = "bench"      // runs are measured
	phaseWrite      = "write"      // a model is written
	phaseWeights    = "weights"    // weights are checked
)

// A progressLine is how far a phase is. It is what programs read.
type progressLine struct {
	Phase   string  `json:"phase"`
	Done    int64   `json:"done"`
	Total   int64   `json:"total"`
	Unit    string  `json:"unit"`         // of both: "blocks", "tokens", "runs", "bytes" or "probes"
	Seconds float64 `json:"seconds"`      // since the phase began
	Left    float64 `json:"left_seconds"` // at the pace up to now
	Note    string  `json:"note,omitempty"`
}

// A progress shows how far work is: see [progressFlag]. A nil one shows nothing.
type progress struct {
	show func(progressLine)
	stop func()
	note string // what else is known
}

// start begins to show on w. The caller calls end.
func (f progressFlag) start(w io.Writer) *progress {
	switch {
	case f == progressJSON:
		lines := newProgressLines(w)
		return &progress{show: lines.set, stop: sync.OnceFunc(lines.stop)}
	case isTerminal(w):
		return newBar(w)
	}
	return nil
}

// phase begins a phase of work, which is counted in unit. How far it is may be
// told by one goroutine at a time.
func (p *progress) phase(name, unit string) (set func(done, total int64)) {
	if p == nil {
		return func(_, _ int64) {}
	}
	began := time.Now()
	return func(done, total int64) {
		line := progressLine{Phase: name, Done: done, Total: total, Unit: unit, Seconds: time.Since(began).Seconds(), Note: p.note}
		if done > 0 {
			line.Left = line.Seconds / float64(done) * float64(total-done)
		}
		p.show(line)
	}
}

// prompt begins the phase of a prompt, and that of loading what is to stay in
// memory, if there is such.
func (p *progress) prompt(e *pipeline.Engine) (set func(done, blocks int)) {
	if p == nil {
		return nil
	}
	prompt, load := p.phase(phasePrompt, "blocks"), p.phase(phaseLoad, "blocks")
	pins, loaded := int64(e.Plan().PinnedBlocks), e.Stats().Stream.Loaded
	return func(done, blocks int) {
		if loaded < pins {
			if now := e.Stats().Stream.Loaded; now > loaded {
				loaded = now
				load(loaded, pins)
			}
		}
		prompt(int64(done), int64(blocks))
	}
}

// tell adds what else is known to what is set from now on.
func (p *progress) tell(note string) {
	if p != nil {
		p.note = note
	}
}

// end ends the showing. It may be called more than once; nothing may be set any
// more.
func (p *progress) end() {
	if p != nil {
		p.stop()
	}
}

// progressDelay is how long work may take before a bar shows up.
const progressDelay = time.Second

// newBar shows on a terminal what phase is under way.
func newBar(w io.Writer) *progress {
	var now, load atomic.Pointer[progressLine]
	now.Store(new(progressLine))
	show := make(chan any)
	bars := mpb.New(mpb.WithOutput(w), mpb.WithRefreshRate(100*time.Millisecond), mpb.WithRenderDelay(show))
	delay := time.AfterFunc(progressDelay, func() { close(show) })
	// It does not complete by itself, so that the end removes it in any case.
	bar := bars.AddBar(0, mpb.BarWidth(40),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			if l := load.Load(); l != nil && l.Done < l.Total {
				return fmt.Sprintf("%s, %d/%d loaded ", now.Load().Phase, l.Done, l.Total)
			}
			return cmp.Or(now.Load().Note, now.Load().Phase) + " "
		})),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return now.Load().String() })),
	)
	set := func(line progressLine) {
		if line.Phase == phaseLoad { // beside another
			load.Store(&line)
			return
		}
		now.Store(&line)
		bar.SetTotal(line.Total, false)
		bar.SetCurrent(line.Done)
	}
	return &progress{show: set, stop: sync.OnceFunc(func() {
		delay.Stop()
		bar.Abort(true)
		bars.Wait()
	})}
}

// String is what stands behind a bar.
func (l *progressLine) String() string {
	left := (time.Duration(l.Left) * time.Second).String()
	if l.Unit == "bytes" {
		rate := ""
		if l.Seconds > 0 {
			rate = bandwidth(float64(l.Done)/l.Seconds) + ", "
		}
		return fmt.Sprintf(" %s of %s, %s%s left", size(l.Done), size(l.Total), rate, left)
	}
	return fmt.Sprintf(" %d/%d %s, %s left", l.Done, l.Total, l.Unit, left)
}
