package main

import (
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"
)

// progressLines write what they are told, a line for each step. Who calls set does
// not wait for who reads: of a phase, a step that is overtaken by the next before
// it is written is left out. The last of each is always written.
type progressLines struct {
	mu      sync.Mutex
	pending []progressLine // at most one a phase
	news    chan struct{}  // capacity 1
	over    chan struct{}
	ended   chan struct{}
}

// progressInterval is how long lies between lines, but at the end: more often
// nobody looks.
const progressInterval = 50 * time.Millisecond

func newProgressLines(w io.Writer) *progressLines {
	p := &progressLines{news: make(chan struct{}, 1), over: make(chan struct{}), ended: make(chan struct{})}
	go p.run(json.NewEncoder(w))
	return p
}

func (p *progressLines) run(e *json.Encoder) {
	defer close(p.ended)
	write := func() {
		p.mu.Lock()
		lines := p.pending
		p.pending = nil
		p.mu.Unlock()
		for _, line := range lines {
			_ = e.Encode(line) // who reads progress may have had enough
		}
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-p.over:
			write()
			return
		case <-p.news:
			write()
		}
		pause.Reset(progressInterval)
		select {
		case <-p.over:
			write()
			return
		case <-pause.C:
		}
	}
}

func (p *progressLines) set(line progressLine) {
	p.mu.Lock()
	if i := slices.IndexFunc(p.pending, func(l progressLine) bool { return l.Phase == line.Phase }); i >= 0 {
		p.pending[i] = line
	} else {
		p.pending = append(p.pending, line)
	}
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default: // it has not yet looked
	}
}

// stop returns when the last lines have been written.
func (p *progressLines) stop() {
	close(p.over)
	<-p.ended
}
