package stage

import (
	"sync"
	"time"
)

// An Activity is what an actor is doing at a moment.
type Activity uint8

// The activities. A metered actor is always in exactly one of them, so their
// times add up to the time for which its meter has run.
const (
	Working      Activity = iota // its own work
	WaitingInput                 // nothing has arrived to work on
	WaitingRoom                  // no slot is free to work in
	activities
)

// Reading marks an [Event] that is no activity.
const Reading = activities

// A Meter counts the blocks, bytes and time of one actor. The actor writes it,
// anybody may read it. A nil Meter counts nothing, so that actors can be used
// without one. A meter that was told to [Meter.Record] also keeps what the actor
// did when.
type Meter struct {
	mu            sync.Mutex // held for a few loads and stores, never over a wait
	blocks, bytes int64
	times         [activities]time.Duration
	now           Activity
	began         time.Time     // what since counts from: asking for such a time costs half of time.Now
	since         time.Duration // when the present activity began
	running       bool
	record        *record // nil: nothing is recorded; set before the actor starts
}

// Counts is a moment's reading of a [Meter]. Blocks and Bytes are not in JSON where
// they are 0: compute, which sends nothing on, has none.
type Counts struct {
	Blocks       int64         `json:"blocks,omitzero"`
	Bytes        int64         `json:"bytes,omitzero"`
	Working      time.Duration `json:"working_nanos"`
	WaitingInput time.Duration `json:"waiting_input_nanos"`
	WaitingRoom  time.Duration `json:"waiting_room_nanos"`
}

// Enter says that the actor goes over to activity a; the time since the last
// call counts for the activity before, and is returned. The first call starts
// the clock.
func (m *Meter) Enter(a Activity) (before time.Duration) {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.began.IsZero() {
		m.began = time.Now()
	}
	before = m.settle()
	m.now, m.running = a, true
	return before
}

// Stop stops the clock, when the actor ends or its work is over for now.
func (m *Meter) Stop() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle()
	m.running = false
}

// settle counts the time up to now for the present activity, which goes on, and
// returns that time. The clock is read under the lock: a time from before it
// could be earlier than one that Counts has told already, and a later reading
// would then be less.
func (m *Meter) settle() (passed time.Duration) {
	now := time.Since(m.began)
	if m.running {
		passed = now - m.since
		m.times[m.now] += passed
		if m.record != nil {
			offset := m.began.Sub(m.record.began)
			m.record.close(m.now, offset+m.since, offset+now)
		}
	}
	m.since = now
	return passed
}

// Count adds one block of n bytes.
func (m *Meter) Count(n int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.blocks++
	m.bytes += n
	if m.record != nil {
		m.record.open.Bytes += n
	}
	m.mu.Unlock()
}

// Counts returns what the meter has counted up to now, the present activity
// included. No count of a later call is less.
func (m *Meter) Counts() Counts {
	if m == nil {
		return Counts{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	times := m.times
	if m.running {
		times[m.now] += time.Since(m.began) - m.since
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
