package ring

import (
	"context"

	"golang.org/x/sys/unix"
)

// Populate makes the pages of m present, from the last to the first, until ctx
// ends: whoever writes m from its beginning meanwhile is met half way. It changes
// no byte. A system that cannot leaves it to the first touch of each page.
func (m *Memory) Populate(ctx context.Context) {
	const step = 8 << 20 // a new mapping in the process waits for so much
	b := m.Bytes()
	for end := len(b); end > 0 && ctx.Err() == nil; {
		begin := (end - 1) / step * step
		if unix.Madvise(b[begin:end], unix.MADV_POPULATE_WRITE) != nil {
			return
		}
		end = begin
	}
}
