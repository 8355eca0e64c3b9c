package ring

import (
	"context"

	"github.com/layerpipe/layerpipe/stage"
)

// A Link carries the slots of one ring from one actor to the next, in order.
// Only the sender closes it.
type Link struct{ ch chan *Slot }

// NewLink returns a link with room for as many slots as the ring has.
func (r *Ring) NewLink() *Link { return &Link{make(chan *Slot, r.Depth())} }

// Send gives s, a slot of the link's ring, away: the caller no longer holds it.
// It never blocks, because there is room for every slot. What holds a sender up
// is [Ring.Acquire].
func (l *Link) Send(s *Slot) {
	s.move(held, sent)
	l.ch <- s
}

// Receive waits for the next slot, which the caller then holds. It returns nil
// and no error when the link is closed and empty, and the cause of ctx if that
// ends first.
func (l *Link) Receive(ctx context.Context, m *stage.Meter) (*Slot, error) {
	if s, ok := l.TryReceive(); ok {
		return s, nil
	}
	m.Enter(stage.WaitingInput)
	defer m.Enter(stage.Working)
	select {
	case s := <-l.ch:
		return take(s), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// TryReceive is [Link.Receive] without waiting. ok is false if nothing is there
// yet; when the link is closed and empty, s is nil and ok is true.
func (l *Link) TryReceive() (s *Slot, ok bool) {
	select {
	case s := <-l.ch:
		return take(s), true
	default:
		return nil, false
	}
}

func take(s *Slot) *Slot {
	if s != nil {
		s.move(sent, held)
	}
	return s
}

// Len is how many slots are under way: sent, and not yet received.
func (l *Link) Len() int { return len(l.ch) }

// Close says that no more slots will come. Only the sender may call it, once.
func (l *Link) Close() { close(l.ch) }

// Drain sends home what still comes, until the sender closes the link, so that no
// slot is left behind by a receiver that has given up. That receiver itself must
// not wait for it if the sender ends only when it hears of a failure.
func (l *Link) Drain() {
	for s := range l.ch {
		take(s).Free()
	}
}
