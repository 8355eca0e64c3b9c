package pipeline

import (
	"sync"
	"time"
	"unsafe"

	"github.com/layerpipe/layerpipe/pipeline/trace"
	"github.com/layerpipe/layerpipe/stage"
)

// traceEvents is how many events of an actor are kept.
const traceEvents = 1 << 15

// traceBytes is what a trace takes: the events of five meters.
const traceBytes = 5 * traceEvents * int64(unsafe.Sizeof(stage.Event{}))

// traced are the meters that only a trace needs.
type traced struct {
	passes, memory *stage.Meter

	mu   sync.Mutex // guards next
	next time.Time  // when memory is read again
}

// memoryInterval is at least how long lies between two readings of the resident
// memory: one takes the system some 30 µs, in which nothing is computed.
const memoryInterval = 50 * time.Millisecond

// record makes the engine's meters keep what they are told.
func (e *Engine) record() *traced {
	t, now := &traced{passes: new(stage.Meter), memory: new(stage.Meter)}, time.Now()
	for _, m := range []*stage.Meter{e.reader, e.dequantizer, e.compute, t.passes, t.memory} {
		m.Record(now, traceEvents)
	}
	return t
}

func (t *traced) whole() *stage.Meter {
	if t == nil {
		return nil
	}
	return t.passes
}

// readMemory is called after each pass.
func (t *traced) readMemory() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.After(t.next) {
		t.next = now.Add(memoryInterval)
		t.memory.Read("resident memory", residentNow("/"))
	}
}

// Trace returns what the actors have done up to now, or nil for an engine that
// was opened without [WithTrace]. It may be called at any time, from any
// goroutine.
func (e *Engine) Trace() *trace.Trace {
	if e.traced == nil {
		return nil
	}
	t := new(trace.Trace)
	for _, track := range []struct {
		name  string
		meter *stage.Meter
	}{
		{trace.Passes, e.traced.passes},
		{trace.Reader, e.reader},
		{trace.Dequantizer, e.dequantizer},
		{trace.Compute, e.compute},
		{trace.Memory, e.traced.memory},
	} {
		events, forgotten := track.meter.Events()
		t.Tracks = append(t.Tracks, trace.Track{Name: track.name, Events: events, Forgotten: forgotten})
	}
	return t
}
