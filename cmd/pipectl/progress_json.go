package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// progressFlag says how progress is shown: "" is a bar on a terminal, and
// nothing elsewhere.
type progressFlag string

const progressJSON progressFlag = "json"

func (f *progressFlag) add(cmd *cobra.Command) {
	addParsed(cmd.Flags(), f, "progress", "", "show progress as `FORM` json: a line on standard error for each step (default a bar on a terminal)", func(s string) (progressFlag, error) {
		if p := progressFlag(s); p == progressJSON {
			return p, nil
		}
		return "", fmt.Errorf("must be %s", progressJSON)
	})
	_ = cmd.RegisterFlagCompletionFunc("progress", cobra.FixedCompletions([]string{string(progressJSON)}, cobra.ShellCompDirectiveNoFileComp))
}

// prompt shows on w how far a prompt's pass has come. set is nil if nothing is
// shown; stop, which may be called more than once, ends it.
func (f progressFlag) prompt(w io.Writer) (set func(done, blocks int), stop func()) {
	switch {
	case f == progressJSON:
		lines := newProgressLines(w, "prompt")
		return lines.set, sync.OnceFunc(lines.stop)
	case isTerminal(w):
		bar := newProgress(w)
		return bar.set, sync.OnceFunc(bar.clear)
	}
	return nil, func() {}
}

// runs shows on w how many of so many runs are done.
func (f progressFlag) runs(w io.Writer, total int) (increment, stop func()) {
	switch {
	case f == progressJSON:
		lines, done := newProgressLines(w, "bench"), 0
		return func() { done++; lines.set(done, total) }, lines.stop
	case isTerminal(w):
		bar := newRunProgress(w, total)
		return bar.bar.Increment, bar.clear
	}
	return func() {}, func() {}
}

// A progressLine is what programs read.
type progressLine struct {
	Phase   string  `json:"phase"` // "prompt" or "bench"
	Done    int     `json:"done"`
	Total   int     `json:"total"`
	Seconds float64 `json:"seconds"`      // since the beginning
	Left    float64 `json:"left_seconds"` // at the pace up to now
}

// progressLines write a line for each step. Who calls set does not wait for who
// reads: a step that is overtaken by the next before it is written is left out.
type progressLines struct {
	phase string
	start time.Time
	next  chan progressLine // the latest that is to be written
	ended chan struct{}
}

func newProgressLines(w io.Writer, phase string) *progressLines {
	p := &progressLines{phase: phase, start: time.Now(), next: make(chan progressLine, 1), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		e := json.NewEncoder(w)
		for line := range p.next {
			_ = e.Encode(line) // who reads progress may have had enough
		}
	}()
	return p
}

// set is called by one goroutine at a time.
func (p *progressLines) set(done, total int) {
	line := progressLine{Phase: p.phase, Done: done, Total: total, Seconds: time.Since(p.start).Seconds()}
	if done > 0 {
		line.Left = line.Seconds / float64(done) * float64(total-done)
	}
	select {
	case <-p.next:
	default:
	}
	p.next <- line // never blocks: only set sends
}

// stop returns when the last line has been written. set must not be called any
// more.
func (p *progressLines) stop() {
	close(p.next)
	<-p.ended
}
