package ioactor

import (
	"fmt"
	"slices"
	"strings"
)

// A Hint is what the reading and the mapping backend tell the kernel about the
// reads to come. It changes when bytes are read, never which. Only Linux
// listens.
type Hint uint8

const (
	// HintNone says nothing: the kernel's own read-ahead sees that the reads
	// are sequential, and the page cache keeps what it has room for.
	HintNone Hint = iota
	// HintFadvise says that the file is read in order, which makes the kernel
	// read further ahead, and drops what has been read from the page cache. It
	// leaves the cache to others, for a model that does not fit there anyway.
	HintFadvise
	// HintWillNeed announces all of a block before the first of its bytes is
	// copied. The kernel brings what is announced in smaller pieces than what it
	// reads ahead by itself: measured, it took twice the time.
	HintWillNeed
)

var hints = []string{HintNone: "none", HintFadvise: "fadvise", HintWillNeed: "willneed"}

// String returns the hint's name.
func (h Hint) String() string {
	if int(h) >= len(hints) {
		return fmt.Sprintf("hint %d", uint8(h))
	}
	return hints[h]
}

// ParseHint returns the hint of that name: none, fadvise or willneed.
func ParseHint(name string) (Hint, error) {
	i := slices.Index(hints, name)
	if i < 0 {
		return 0, fmt.Errorf("hint %q: not one of %s", name, strings.Join(hints, ", "))
	}
	return Hint(i), nil
}

// maxAnnounced is how much of a file is announced at once. The kernel reads no
// more for one call than its read-ahead window or the device's largest request,
// and drops the rest without a word.
const maxAnnounced = 512 << 10

// open follows the hint for a file that has just been opened.
func (h Hint) open(f File) {
	if h == HintFadvise {
		adviseSequential(f)
	}
}

// before follows the hint for the extents of b, which are read next.
func (h Hint) before(b *Block, file func(i int) File) {
	if h != HintWillNeed {
		return
	}
	for _, e := range b.Extents {
		for done := int64(0); done < e.Size; done += maxAnnounced {
			adviseWillNeed(file(e.File), e.Off+done, min(maxAnnounced, e.Size-done))
		}
	}
}

// after follows the hint for an extent that has been read.
func (h Hint) after(f File, e Extent) {
	if h == HintFadvise {
		adviseDone(f, e.Off, e.Size)
	}
}
