package pipeline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ring"
)

// A Backend says how blocks are read from storage. The zero value leaves it to
// the planner, or is [Pread] where nothing is planned.
type Backend struct {
	name     string
	opener   func(paths []string, s storage) (ioactor.Backend, error)
	view     bool // parts lie in the backend's memory: slots need no load area, and nobody may write
	buffered bool // it reads through the page cache
	device   bool // it waits for the device and not for the processor: several loads at once pay
}

// storage is what is known about the device.
type storage struct {
	hint     ioactor.Hint
	direct   ioactor.DirectOptions
	inFlight int // loads at once, if that pays; 0 means 1
}

// asProbed reads as probe has found best, if there is one, with so many slots.
func (s *storage) asProbed(probe *ioactor.ProbeResult, buffers int) {
	if probe != nil {
		s.direct = ioactor.DirectOptions{Chunk: probe.Chunk}
	}
	s.inFlight = loadsAtOnce(probe, buffers)
}

// loadsAtOnce is how many blocks are best read at once, with so many slots: one of
// them is the consumer's. Without it two reads that began together end together,
// and until the first block is done with there is nowhere to read to.
func loadsAtOnce(probe *ioactor.ProbeResult, buffers int) int {
	if probe == nil {
		return 1
	}
	return max(1, min(probe.InFlight, buffers-1))
}

// The backends.
var (
	// Pread reads at positions, through the page cache: best for a model that
	// fits there.
	Pread = Backend{name: "pread", buffered: true, opener: func(p []string, s storage) (ioactor.Backend, error) { return ioactor.OpenPread(p, s.hint) }}
	// Direct reads past the page cache: best for a model that does not fit
	// there, of which a cyclic scan never finds anything again.
	Direct = Backend{name: "direct", device: true, opener: func(p []string, s storage) (ioactor.Backend, error) { return ioactor.OpenDirect(p, s.direct) }}
	// Mmap copies from a mapping of the files.
	Mmap = Backend{name: "mmap", buffered: true, opener: func(p []string, s storage) (ioactor.Backend, error) { return ioactor.OpenMmap(p, s.hint) }}
	// View copies nothing: compute reads weights in a mapping of the files.
	View = Backend{name: "view", view: true, buffered: true, opener: func(p []string, _ storage) (ioactor.Backend, error) { return ioactor.OpenView(p) }}
)

// Backends lists the backends that come with the package.
func Backends() []Backend { return []Backend{Pread, Direct, Mmap, View} }

// NewBackend makes a backend of the program's own. open gets the paths of the
// files that the blocks' extents count by; the stream closes what it returns.
func NewBackend(name string, open func(paths []string) (ioactor.Backend, error)) Backend {
	return Backend{name: name, opener: func(p []string, _ storage) (ioactor.Backend, error) { return open(p) }}
}

// ParseBackend returns the backend of that name.
func ParseBackend(name string) (Backend, error) {
	var names []string
	for _, b := range Backends() {
		if b.name == name {
			return b, nil
		}
		names = append(names, b.name)
	}
	return Backend{}, fmt.Errorf("backend %q: not one of %s", name, strings.Join(names, ", "))
}

// String returns the backend's name.
func (b Backend) String() string { return b.orPread().name }

func (b Backend) orPread() Backend {
	if b.opener == nil {
		return Pread
	}
	return b
}

// chosen reports whether b is a backend, and not left to the planner.
func (b Backend) chosen() bool { return b.opener != nil }

// open opens as many backends as s wants loads at once.
func (b Backend) open(paths []string, s storage) ([]ioactor.Backend, error) {
	n := 1
	if b.device {
		n = max(1, s.inFlight)
	}
	var backends []ioactor.Backend
	for range n {
		one, err := b.opener(paths, s)
		if err != nil {
			return nil, errors.Join(err, closeAll(backends))
		}
		backends = append(backends, one)
	}
	return backends, nil
}

func closeAll(backends []ioactor.Backend) error {
	var errs []error
	for _, b := range backends {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// newRing makes the slots that b loads into.
func (b Backend) newRing(depth int, blocks []Block, work int64) (*ring.Ring, error) {
	load := slotLoad(blocks)
	if b.view {
		load = 0
	}
	return ring.New(depth, load, work)
}

// slotLoad is the load area that every one of blocks fits in, in whole huge
// pages: what is left of the last would be read into much slower.
func slotLoad(blocks []Block) int64 {
	n := ioactor.LoadBytes(blocks)
	if n < ring.HugePage {
		return n
	}
	return (n + ring.HugePage - 1) / ring.HugePage * ring.HugePage
}
