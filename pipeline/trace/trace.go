// Package trace has the timeline of an engine: what each actor did when, for
// which block. It is written as a trace-event file, which ui.perfetto.dev shows,
// and read again to say what bounded a pass.
package trace

import (
	"time"

	"github.com/layerpipe/layerpipe/stage"
)

// The names of an engine's tracks.
const (
	Passes      = "passes" // one event a pass: its number as the block, its tokens as bytes
	Reader      = "reader"
	Dequantizer = "dequantizer"
	Compute     = "compute"
	Memory      = "memory" // readings alone
)

// Actors are the tracks of the actors in the order in which a block meets them.
var Actors = []string{Reader, Dequantizer, Compute}

// A Trace is what was recorded.
type Trace struct {
	Tracks []Track
}

// A Track is what one actor did, in the order of time. Its events do not overlap.
type Track struct {
	Name      string
	Events    []stage.Event
	Forgotten int64 // older events that are not kept any more
}

// Track returns the track of that name, or nil.
func (t *Trace) Track(name string) *Track {
	for i := range t.Tracks {
		if t.Tracks[i].Name == name {
			return &t.Tracks[i]
		}
	}
	return nil
}

// Total is how long the actor was in activity a.
func (t *Track) Total(a stage.Activity) time.Duration {
	var sum time.Duration
	for _, e := range t.activities() {
		if e.Activity == a {
			sum += e.End - e.Start
		}
	}
	return sum
}

// activities are the events that are no readings.
func (t *Track) activities() []stage.Event {
	if t == nil {
		return nil
	}
	events := make([]stage.Event, 0, len(t.Events))
	for _, e := range t.Events {
		if e.Activity != stage.Reading {
			events = append(events, e)
		}
	}
	return events
}
