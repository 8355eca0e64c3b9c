package ioactor

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/layerpipe/layerpipe/ring"
)

// ProbeOptions bounds a [Probe].
type ProbeOptions struct {
	Time  time.Duration // after which no further read is begun; zero means half a second
	Bytes int64         // that are read at most, at least one region's; zero means 1 GiB
}

// A ProbeResult says how fast a file can be streamed.
type ProbeResult struct {
	BytesPerSecond float64       `json:"bytes_per_second"` // with Chunk and InFlight
	Chunk          int64         `json:"chunk"`            // for [DirectOptions]
	InFlight       int           `json:"in_flight"`
	Bytes          int64         `json:"bytes"` // read by the probe in all
	Time           time.Duration `json:"time_nanos"`
	// Device says that the reads came from the device. If not, Reason says what
	// was measured in its place, in words for the user. A machine below this one
	// (the host of a virtual machine, a disk's own cache) can still have had the
	// bytes in memory: it cannot be seen from here.
	Device bool   `json:"device"`
	Reason string `json:"reason,omitempty"`
	// HugePages says that the memory that was read into is huge pages, as that
	// of slots is then.
	HugePages bool `json:"huge_pages"`
}

// trials are the ways to read that a probe compares, the ones to prefer first:
// the smaller chunk can be cancelled sooner, and one read at a time needs no
// goroutines.
var trials = []DirectOptions{
	{Chunk: 4 << 20, InFlight: 1},
	{Chunk: 8 << 20, InFlight: 1},
	{Chunk: 16 << 20, InFlight: 1},
	{Chunk: 4 << 20, InFlight: 2},
	{Chunk: 4 << 20, InFlight: 4},
	{Chunk: 1 << 20, InFlight: 1},
	{Chunk: 1 << 20, InFlight: 4},
	{Chunk: 256 << 10, InFlight: 4},
}

const (
	// maxRegion is what one trial reads at a time: the largest of the chunks,
	// or four at once of 4 MiB.
	maxRegion = 16 << 20
	// minReads is how many reads a second there shall be on a slow device.
	minReads = 40
	// comparing is the share of the time for comparing the ways to read. The
	// rest measures the one that is chosen.
	comparing = 0.4
	// clearly is how much faster than one before it in trials a way must be.
	clearly = 1.05
)

// Probe measures how fast the file at path can be read by [Direct], and which
// chunk and number in flight suit its device. It reads, in turns, random regions
// of the file, each only once, into memory like that of slots; a turn for each
// way, so that a device that becomes slower meanwhile does it to all. It keeps
// the page cache as it is where direct reads work. A file of less than some
// 100 MB gives a rough figure.
func Probe(ctx context.Context, path string, o ProbeOptions) (ProbeResult, error) {
	r, err := probe(ctx, path, o, system)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("probe: %w", err)
	}
	return r, err
}

func probe(ctx context.Context, path string, o ProbeOptions, sys directSystem) (r ProbeResult, err error) {
	o.Time = cmp.Or(o.Time, time.Second/2)
	o.Bytes = cmp.Or(o.Bytes, 1<<30)
	fi, err := os.Stat(path)
	if err != nil {
		return r, err
	}
	if fi.Size() == 0 {
		return r, fmt.Errorf("%s: an empty file has no speed", path)
	}
	p := newProber(fi.Size())

	huge := ring.HugeBytes()
	slots, err := ring.New(1, maxRegion, 0) // of a small file too: small slots have no huge pages
	if err != nil {
		return r, err
	}
	defer slots.Close()
	s, err := slots.Acquire(ctx, nil)
	if err != nil {
		return r, err
	}
	defer s.Free()
	for i := 0; i < len(s.Load()); i += Align {
		s.Load()[i] = 0 // that the system brings the memory is not measured
	}
	r.HugePages = ring.HugeBytes()-huge >= maxRegion/2

	backends := make([]*Direct, 0, len(trials))
	defer func() {
		for _, d := range backends {
			if closeErr := d.Close(); err == nil {
				err = closeErr
			}
		}
	}()
	for _, t := range trials {
		d, err := openDirect([]string{path}, t, sys)
		if err != nil {
			return r, err
		}
		backends = append(backends, d)
	}

	p.start = time.Now()
	fromStorage, counted, err := p.check(ctx, backends[0], s)
	if err != nil {
		return r, err
	}
	r.Device, r.Reason = source(path, backends[0].Note(), fromStorage, counted)

	speeds := make([][]float64, len(trials))
	for turn := 0; turn == 0 || p.goesOn(o, comparing); turn++ {
		i := turn % len(trials)
		began := time.Now()
		n, err := p.read(ctx, backends[i], s)
		if err != nil {
			return r, err
		}
		speeds[i] = append(speeds[i], float64(n)/max(time.Since(began), 1).Seconds())
	}
	best := prefer(speeds)
	r.Chunk, r.InFlight, r.BytesPerSecond = trials[best].Chunk, trials[best].InFlight, median(speeds[best])

	var line line
	for p.goesOn(o, 1) {
		n, err := p.read(ctx, backends[best], s)
		if err != nil {
			return r, err
		}
		line.add(time.Since(p.start).Seconds(), float64(n))
	}
	if last := line.slope(); line.n >= 3 && last > 0 && !math.IsInf(last, 1) { // a coarse clock may not tell reads apart
		r.BytesPerSecond = last
	}
	r.Bytes, r.Time = p.bytes, time.Since(p.start)
	return r, nil
}

// prefer returns the first way to read that no other clearly exceeds. It goes
// by the medians of their speeds: where a quota lets bursts through, some of
// the reads wait for it, whichever they are.
func prefer(speeds [][]float64) int {
	var most float64
	for _, s := range speeds {
		most = max(most, median(s))
	}
	return slices.IndexFunc(speeds, func(s []float64) bool { return median(s)*clearly >= most })
}

// median is 0 of nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// A line is fitted to the sum of the bytes over the time (least squares). Its
// slope is the speed that lasts: a quota that is handed out ten times a second
// makes steps of the sum, and the quotient of its last value and the time would
// be as wrong as a step is high.
type line struct {
	n, sum       float64 // of points; of bytes up to the last
	x, y, xx, xy float64 // sums over the points
}

func (l *line) add(seconds, bytes float64) {
	l.n++
	l.sum += bytes
	l.x, l.y = l.x+seconds, l.y+l.sum
	l.xx, l.xy = l.xx+seconds*seconds, l.xy+seconds*l.sum
}

func (l *line) slope() float64 { return (l.n*l.xy - l.x*l.y) / (l.n*l.xx - l.x*l.x) }

// A prober reads random regions of a file, each once.
type prober struct {
	size, region int64
	order        []int // numbers of the regions that are left
	start        time.Time
	bytes        int64 // read so far
	block        Block
}

// maxRegions bounds the list of them: more than any probe reads.
const maxRegions = 1 << 16

func newProber(size int64) *prober {
	p := &prober{size: size}
	p.region = min(maxRegion, max(Align, size/int64(len(trials)+1)/Align*Align))
	p.order = rand.Perm(int(min(max(1, size/p.region), maxRegions)))
	return p
}

// read loads the next region, and returns how much of it.
func (p *prober) read(ctx context.Context, d *Direct, s *ring.Slot) (int64, error) {
	off := int64(p.order[0]) * p.region
	p.order = p.order[1:]
	n := min(p.region, p.size-off, p.pace())
	p.block = Block{Name: "probe", Extents: append(p.block.Extents[:0], Extent{Off: off, Size: n})}
	p.bytes += n
	return n, d.Load(ctx, &p.block, s)
}

// firstRead is enough to tell a slow device, and keeps it for no longer than a
// tenth of a second.
const firstRead = 1 << 20

// check makes the first read. It wakes the device, finds out whether the file
// system takes part, and shows which share of its bytes came from storage, if
// the system counts that.
func (p *prober) check(ctx context.Context, d *Direct, s *ring.Slot) (fromStorage float64, counted bool, err error) {
	runtime.LockOSThread() // the system counts by thread, and one read in flight is this one's
	defer runtime.UnlockOSThread()
	order := p.order
	before, ok := storageReads()
	n, err := p.read(ctx, d, s)
	after, ok2 := storageReads()
	if len(p.order) == 0 {
		p.order = order // a tiny file is read twice
	}
	return float64(after-before) / float64(n), ok && ok2, err
}

// pace is how much to read next, so that a slow device does not exceed the time
// by more than one of many reads.
func (p *prober) pace() int64 {
	if p.bytes == 0 {
		return firstRead
	}
	perSecond := float64(p.bytes) / max(time.Since(p.start), 1).Seconds()
	return max(firstRead, int64(min(maxRegion, perSecond/minReads))/Align*Align)
}

// goesOn reports whether another read fits in that share of the bounds, and
// there is something left to read.
func (p *prober) goesOn(o ProbeOptions, share float64) bool {
	return len(p.order) > 0 &&
		float64(p.bytes+p.region) <= share*float64(o.Bytes) &&
		time.Since(p.start).Seconds() < share*o.Time.Seconds()
}

// source says whether the device was measured, and if not, what.
func source(path, note string, fromStorage float64, counted bool) (device bool, reason string) {
	kind := memoryFS(path)
	switch {
	case kind != "":
		return false, fmt.Sprintf("%s is in memory (%s)", path, kind)
	case note != "" && counted && fromStorage < 0.5:
		return false, note + ", where most of it was already"
	case note != "":
		return false, note
	case counted && fromStorage < 0.5:
		return false, fmt.Sprintf("%.0f%% of the bytes came from storage, the rest from a cache of the file system", 100*fromStorage)
	}
	return true, ""
}
