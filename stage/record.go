package stage

import "time"

// An Event is a stretch of time in which an actor did one thing, or a reading of
// a number that goes up and down.
type Event struct {
	Activity Activity // [Reading] for a reading
	// Start and End are times since the recording began. Events of one meter
	// are in the order of time and do not overlap; a reading has no length.
	Start, End time.Duration
	Task       string // what it worked on or waited for; "" if it did not say
	Block      int    // the block that it did it for, -1 for none
	Bytes      int64  // counted meanwhile; of a reading, its value
}

// record is the part of a meter that remembers. The meter's lock guards it: an
// actor shares it with nobody but a rare reader.
type record struct {
	began  time.Time
	events []Event // a ring: event i is at i modulo its length
	n      int64   // events so far
	open   Event   // the present one, without its times
}

// Record makes the meter keep its latest n events, counting their times from
// began. It takes the memory for them at once: nothing is allocated later. It
// must be called before the actor starts.
func (m *Meter) Record(began time.Time, n int) {
	m.record = &record{began: began, events: make([]Event, n), open: Event{Block: -1}}
}

// Task says what the present activity is about: a task, and the block that it
// is done for, -1 for none. If the activity is about something else already,
// that ends here and a new event begins. It costs nothing where nothing is
// recorded. The text should be a constant.
func (m *Meter) Task(task string, block int) {
	if m == nil || m.record == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.record
	if r.open.Task == task && r.open.Block == block {
		return
	}
	if r.open.Task != "" && m.running {
		m.settle()
	}
	r.open.Task, r.open.Block = task, block
}

// Read records a reading of a number, such as how many slots are ready. It costs
// nothing where nothing is recorded.
func (m *Meter) Read(what string, value int64) {
	if m == nil || m.record == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := time.Since(m.record.began)
	m.record.add(Event{Activity: Reading, Start: at, End: at, Task: what, Block: -1, Bytes: value})
}

// Events returns the recorded events that are kept, the oldest first, and how
// many before them have been forgotten. The present one is not among them: it
// has no end yet.
func (m *Meter) Events() (events []Event, forgotten int64) {
	if m == nil || m.record == nil {
		return nil, 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.record
	room := int64(len(r.events))
	forgotten = max(0, r.n-room)
	events = make([]Event, 0, r.n-forgotten)
	for i := forgotten; i < r.n; i++ {
		events = append(events, r.events[i%room])
	}
	return events, forgotten
}

// close ends the present event and begins one that is not known yet.
func (r *record) close(a Activity, start, end time.Duration) {
	e := r.open
	e.Activity, e.Start, e.End = a, start, end
	r.add(e)
	r.open = Event{Block: -1}
}

func (r *record) add(e Event) {
	r.events[r.n%int64(len(r.events))] = e
	r.n++
}
