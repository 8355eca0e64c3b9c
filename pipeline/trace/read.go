package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/layerpipe/layerpipe/stage"
)

// ErrFormat reports a file that [Trace.Write] has not written.
var ErrFormat = errors.New("trace: not a trace of layerpipe")

// fileEvent is an event as it lies in the file.
type fileEvent struct {
	Name     string   `json:"name"`
	Category string   `json:"cat"`
	Phase    string   `json:"ph"`
	Thread   int      `json:"tid"`
	Start    float64  `json:"ts"`
	Duration float64  `json:"dur"`
	Args     fileArgs `json:"args"`
}

type fileArgs struct {
	Name      string `json:"name"`
	Forgotten int64  `json:"forgotten"`
	Block     int    `json:"block"`
	Bytes     int64  `json:"bytes"`
	Pass      int    `json:"pass"` // in place of both
	Tokens    int64  `json:"tokens"`
	Value     *int64 `json:"value"`
}

// Read reads what [Trace.Write] has written. The names of events that had none
// are those in the file. Times that are out of order, or a file of another
// program, are an [ErrFormat].
func Read(r io.Reader) (*Trace, error) {
	var file struct {
		Events []fileEvent `json:"traceEvents"`
	}
	if err := json.NewDecoder(r).Decode(&file); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	t := new(Trace)
	threads := map[int]int{} // to the index of the track
	for i, f := range file.Events {
		if f.Phase == "M" {
			if f.Name == "thread_name" {
				if _, twice := threads[f.Thread]; twice {
					return nil, fmt.Errorf("%w: event %d: thread %d twice", ErrFormat, i, f.Thread)
				}
				threads[f.Thread] = len(t.Tracks)
				t.Tracks = append(t.Tracks, Track{Name: f.Args.Name, Forgotten: f.Args.Forgotten})
			}
			continue
		}
		at, ok := threads[f.Thread]
		if !ok {
			return nil, fmt.Errorf("%w: event %d: thread %d has no name", ErrFormat, i, f.Thread)
		}
		e, ok, err := f.event()
		if err != nil {
			return nil, fmt.Errorf("%w: event %d: %w", ErrFormat, i, err)
		}
		if ok && t.Tracks[at].Name == Passes && e.Activity != stage.Reading {
			e.Block, e.Bytes = f.Args.Pass, f.Args.Tokens
		}
		if ok {
			t.Tracks[at].Events = append(t.Tracks[at].Events, e)
		}
	}
	for i := range t.Tracks {
		var end time.Duration
		for _, e := range t.Tracks[i].activities() {
			if e.Start < end {
				return nil, fmt.Errorf("%w: track %q: %q at %v overlaps the event before", ErrFormat, t.Tracks[i].Name, e.Task, e.Start)
			}
			end = e.End
		}
	}
	if !slices.ContainsFunc(t.Tracks, func(t Track) bool { return t.Name == Compute }) {
		return nil, fmt.Errorf("%w: it has no track %q", ErrFormat, Compute)
	}
	return t, nil
}

// event returns the event; ok is false for what is derived from others.
func (f *fileEvent) event() (e stage.Event, ok bool, err error) {
	const most = float64(math.MaxInt64 / 4000)
	if !(f.Start >= 0 && f.Start < most && f.Duration >= 0 && f.Duration < most) {
		return e, false, fmt.Errorf("time %g, %g", f.Start, f.Duration)
	}
	e.Start = time.Duration(math.Round(f.Start * 1000))
	e.End = e.Start + time.Duration(math.Round(f.Duration*1000))
	e.Task, e.Block, e.Bytes = f.Name, f.Args.Block, f.Args.Bytes
	switch f.Phase {
	case "C":
		if f.Args.Value == nil {
			return e, false, nil
		}
		return stage.Event{Activity: stage.Reading, Start: e.Start, End: e.Start, Task: f.Name, Block: -1, Bytes: *f.Args.Value}, true, nil
	case "X":
		for a, name := range categories {
			if f.Category == name {
				e.Activity = a
				return e, true, nil
			}
		}
		return e, false, fmt.Errorf("category %q", f.Category)
	}
	return e, false, fmt.Errorf("phase %q", f.Phase)
}
