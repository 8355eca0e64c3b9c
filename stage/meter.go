package stage

import (
	"sync"
	"time"
)

// An Activity is what an actor is doing at a moment.
type Activity uint8

// The activities. An actor is always in exactly one of them, so their times
// add up to the time that it has been metered.
const (
	Working      Activity = iota // its own work
	WaitingInput                 // nothing has arrived to work on
	WaitingRoom                  // its work is done and there is no room for it, or no slot to work in
	activities
)

// A Meter counts the blocks, bytes and time of one actor. The actor writes it,
// anybody may read it. A nil Meter counts nothing, so that actors can be used
// without one.
type Meter struct {
	mu            sync.Mutex // held for a few loads and stores, never over a wait
	blocks, bytes int64
	times         [activities]time.Duration
	now           Activity
	since         time.Time // zero: not running
}

// Counts is a moment's reading of a [Meter].
type Counts struct {
	Blocks       int64         `json:"blocks"`
	Bytes        int64         `json:"bytes"`
	Working      time.Duration `json:"working_nanos"`
	WaitingInput time.Duration `json:"waiting_input_nanos"`
	WaitingRoom  time.Duration `json:"waiting_room_nanos"`
}

// Enter says that the actor goes over to activity a; the time since the last
// call counts for the activity before. The first call starts the clock.
func (m *Meter) Enter(a Activity) {
	if m == nil {
		return
	}
	t := time.Now()
	m.mu.Lock()
	m.settle(t)
	m.now, m.since = a, t
	m.mu.Unlock()
}

// Stop stops the clock, when the actor ends or its work is over for now.
func (m *Meter) Stop() {
	if m == nil {
		return
	}
	t := time.Now()
	m.mu.Lock()
	m.settle(t)
	m.since = time.Time{}
	m.mu.Unlock()
}

func (m *Meter) settle(t time.Time) {
	if !m.since.IsZero() {
		m.times[m.now] += t.Sub(m.since)
	}
}

// Count adds one block of n bytes.
func (m *Meter) Count(n int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.blocks++
	m.bytes += n
	m.mu.Unlock()
}

// Counts returns what the meter has counted up to now.
func (m *Meter) Counts() Counts {
	if m == nil {
		return Counts{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	times := m.times
	if !m.since.IsZero() {
		times[m.now] += time.Since(m.since)
	}
	return Counts{
		Blocks: m.blocks, Bytes: m.bytes,
		Working: times[Working], WaitingInput: times[WaitingInput], WaitingRoom: times[WaitingRoom],
	}
}

// Sub returns what was counted between the earlier reading o and c.
func (c Counts) Sub(o Counts) Counts {
	return Counts{
		Blocks: c.Blocks - o.Blocks, Bytes: c.Bytes - o.Bytes,
		Working: c.Working - o.Working, WaitingInput: c.WaitingInput - o.WaitingInput, WaitingRoom: c.WaitingRoom - o.WaitingRoom,
	}
}
