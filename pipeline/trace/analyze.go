package trace

import (
	"slices"
	"sort"
	"time"

	"github.com/layerpipe/layerpipe/stage"
)

// A Pass is one trip of tokens through all blocks.
type Pass struct {
	Number int           `json:"number"` // from 0
	Tokens int64         `json:"tokens"`
	Start  time.Duration `json:"start_nanos"`
	End    time.Duration `json:"end_nanos"`
}

// Time is how long the pass took.
func (p Pass) Time() time.Duration { return p.End - p.Start }

// Passes lists the passes of which everything is still known, the oldest first.
func (t *Trace) Passes() []Pass {
	var known time.Duration // everything from here on
	for _, name := range Actors {
		if track := t.Track(name); track != nil && track.Forgotten > 0 && len(track.Events) > 0 {
			known = max(known, track.Events[0].End)
		}
	}
	var passes []Pass
	for _, e := range t.Track(Passes).activities() {
		if e.Activity == stage.Working && e.Start >= known && e.End > e.Start {
			passes = append(passes, Pass{Number: e.Block, Tokens: e.Bytes, Start: e.Start, End: e.End})
		}
	}
	return passes
}

// A Report says where the time of a pass went.
type Report struct {
	Pass   Pass        `json:"pass"`
	Actors []ActorTime `json:"actors"` // as [Actors]
	// OverlapEfficiency is the time that storage, dequantizing or arithmetic alone
	// takes, the longest of them, divided by the time of the pass: 1 is what
	// cannot be better, short of less work for that actor. With nothing hidden
	// behind other work it is the share of the longest in the sum of all.
	// Statistics of a generation have the same figure for all its passes.
	OverlapEfficiency float64 `json:"overlap_efficiency"`
	// Path is the critical path, in the order of time: the chain of work in which
	// each piece had to wait for the one before. It covers the whole pass.
	Path []Segment `json:"-"`
	// Handover is the part of the path in which nobody worked: the time from when
	// something was there until its receiver ran.
	Handover time.Duration `json:"handover_nanos"`
	// Limiter is the actor that most of the path belongs to.
	Limiter string `json:"limiter"` // as [Names]
}

// An ActorTime is where the time of one actor went during a pass.
type ActorTime struct {
	Name         string        `json:"name"`
	Working      time.Duration `json:"working_nanos"`
	WaitingInput time.Duration `json:"waiting_input_nanos"`
	WaitingRoom  time.Duration `json:"waiting_room_nanos"`
	Critical     time.Duration `json:"critical_nanos"` // its part of the critical path
}

// A Segment is a piece of a critical path.
type Segment struct {
	Actor      int // index into [Actors]; -1 for a hand-over
	Start, End time.Duration
}

// Names say in words what each of [Actors] does, as statistics do.
var Names = []string{"storage", "dequantizing", "arithmetic"}

// Analyze says where the time of pass p went.
func (t *Trace) Analyze(p Pass) *Report {
	r := &Report{Pass: p}
	events := make([][]stage.Event, len(Actors))
	var most time.Duration
	for i, name := range Actors {
		events[i] = t.Track(name).activities()
		a := ActorTime{Name: name}
		for _, e := range events[i] {
			d := max(0, min(e.End, p.End)-max(e.Start, p.Start))
			switch e.Activity {
			case stage.Working:
				a.Working += d
			case stage.WaitingInput:
				a.WaitingInput += d
			default:
				a.WaitingRoom += d
			}
		}
		most = max(most, a.Working)
		r.Actors = append(r.Actors, a)
	}
	if d := p.Time(); d > 0 {
		r.OverlapEfficiency = float64(most) / float64(d)
	}
	r.Path = criticalPath(events, p)
	var longest time.Duration
	for _, s := range r.Path {
		if s.Actor < 0 {
			r.Handover += s.End - s.Start
			continue
		}
		a := &r.Actors[s.Actor]
		if a.Critical += s.End - s.Start; a.Critical > longest {
			longest, r.Limiter = a.Critical, Names[s.Actor]
		}
	}
	for i, a := range r.Actors { // a tie goes to the last
		if a.Critical == longest && longest > 0 {
			r.Limiter = Names[i]
		}
	}
	return r
}

// criticalPath walks from the end of p, where compute is, to its beginning. Work
// leads back to its own beginning; a wait for a block to the end of what the
// actor before did for that block; a wait for a slot to compute, which gave one
// back. Every step goes back in time, so the walk ends.
func criticalPath(events [][]stage.Event, p Pass) []Segment {
	var path []Segment
	compute := len(events) - 1
	actor, now := compute, p.End
	back := func(actor int, to time.Duration) { // to where the segment begins
		to = max(to, p.Start)
		if to < now {
			path = append(path, Segment{actor, to, now})
		}
		now = min(now, to)
	}
	for now > p.Start {
		es := events[actor]
		i := sort.Search(len(es), func(i int) bool { return es[i].Start >= now }) - 1
		if i < 0 {
			back(-1, p.Start)
			break
		}
		e := &es[i]
		switch {
		case e.End < now: // it has ended: nothing is left to load
			back(-1, e.End)
		case e.Activity == stage.Working:
			back(actor, e.Start)
		case e.Activity == stage.WaitingRoom && actor != compute:
			actor = compute
		case actor == 0:
			back(-1, e.Start)
		default:
			block := e.Block
			if block < 0 && i+1 < len(es) {
				block = es[i+1].Block
			}
			u := lastWork(events[actor-1], now, block)
			if u == nil || u.End <= e.Start { // it was there already
				back(-1, e.Start)
				break
			}
			back(-1, u.End)
			actor--
		}
	}
	slices.Reverse(path)
	return path
}

// lastWork returns the last work for block that begins before now.
func lastWork(events []stage.Event, now time.Duration, block int) *stage.Event {
	for i := sort.Search(len(events), func(i int) bool { return events[i].Start >= now }) - 1; i >= 0; i-- {
		if events[i].Activity == stage.Working && events[i].Block == block {
			return &events[i]
		}
	}
	return nil
}
