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

	"golang.org/x/sync/errgroup"

	"github.com/layerpipe/layerpipe/ring"
)

// ProbeOptions bounds a [Probe].
type ProbeOptions struct {
	Time  time.Duration // after which no further read is begun; zero means half a second
	Bytes int64         // that are read at most, at least a few regions' of 8 MiB; zero means 1 GiB
}

// A ProbeResult says how fast a file can be streamed.
type ProbeResult struct {
	BytesPerSecond float64       `json:"bytes_per_second"` // with Chunk and InFlight
	Chunk          int64         `json:"chunk"`            // for [DirectOptions]
	InFlight       int           `json:"in_flight"`        // loads at once: as many backends for the [Reader]
	Bytes          int64         `json:"bytes"`            // read by the probe in all
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

// A trial is a way to read that a probe compares with others.
type trial struct {
	chunk    int64
	inFlight int
}

// trials are the ones to prefer first. A probe reads on an idle machine, but a
// pass reads while all cores compute: then who reads waits for a core after each
// read, so that few large reads, and a second one in flight, keep a device busy
// that many small ones, one at a time, do not. A disk that seeks between two
// reads at once prefers one.
var trials = []trial{
	{8 << 20, 2},
	{8 << 20, 1},
	{1 << 20, 2},
	{256 << 10, 2},
}

const (
	// maxRegion is what a load of a probe reads: the largest of the chunks.
	maxRegion   = 8 << 20
	maxInFlight = 2
	// minReads is how many reads a second there shall be on a slow device.
	minReads = 40
	// comparing is the share of the time for comparing the ways to read. The
	// rest measures the one that is chosen.
	comparing = 0.4
	// clearly is how much faster than one before it in trials a way must be: more
	// than a device that others use too makes of a few reads by chance.
	clearly = 1.2
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
	lanes, err := newProbeLanes(ctx, path, sys)
	defer func() {
		for _, l := range lanes {
			if closed := l.close(); err == nil {
				err = closed
			}
		}
	}()
	if err != nil {
		return r, err
	}
	r.HugePages = ring.HugeBytes()-huge >= maxInFlight*maxRegion/2

	p.start = time.Now()
	fromStorage, counted, err := p.check(ctx, lanes[0])
	if err != nil {
		return r, err
	}
	r.Device, r.Reason = source(path, lanes[0].direct.Note(), fromStorage, counted)

	speeds := make([][]float64, len(trials))
	for turn := 0; turn == 0 || p.goesOn(o, comparing); turn++ {
		i := turn % len(trials)
		began := time.Now()
		n, err := p.read(ctx, lanes, trials[i])
		if err != nil {
			return r, err
		}
		speeds[i] = append(speeds[i], float64(n)/max(time.Since(began), 1).Seconds())
	}
	best := prefer(speeds)
	r.Chunk, r.InFlight, r.BytesPerSecond = trials[best].chunk, trials[best].inFlight, median(speeds[best])

	var line line
	for p.goesOn(o, 1) {
		n, err := p.read(ctx, lanes, trials[best])
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

// A probeLane is one of the loads that a probe has in flight.
type probeLane struct {
	direct *Direct
	ring   *ring.Ring
	slot   *ring.Slot
	block  Block
}

// newProbeLanes returns lanes with slots that have been written once: that the
// system brings the memory is not measured. The caller closes those that it
// returns, also with an error.
func newProbeLanes(ctx context.Context, path string, sys directSystem) (lanes []*probeLane, err error) {
	for range maxInFlight {
		l := &probeLane{block: Block{Name: "probe"}}
		lanes = append(lanes, l)
		if l.ring, err = ring.New(1, maxRegion, 0); err != nil { // of a small file too: small slots have no huge pages
			return lanes, err
		}
		if l.slot, err = l.ring.Acquire(ctx, nil); err != nil {
			return lanes, err
		}
		for i := 0; i < len(l.slot.Load()); i += Align {
			l.slot.Load()[i] = 0
		}
		if l.direct, err = openDirect([]string{path}, DirectOptions{}, sys); err != nil {
			return lanes, err
		}
	}
	return lanes, nil
}

func (l *probeLane) close() (err error) {
	if l.direct != nil {
		err = l.direct.Close()
	}
	if l.slot != nil {
		l.slot.Free()
	}
	if l.ring != nil {
		l.ring.Close()
	}
	return err
}

func (l *probeLane) load(ctx context.Context, e Extent, chunk int64) error {
	l.block.Extents = append(l.block.Extents[:0], e)
	l.direct.opts.Chunk = chunk
	return l.direct.Load(ctx, &l.block, l.slot)
}

// A prober reads random regions of a file, each once.
type prober struct {
	size, region int64
	order        []int // numbers of the regions that are left
	start        time.Time
	bytes        int64 // read so far
}

// maxRegions bounds the list of them: more than any probe reads.
const maxRegions = 1 << 16

func newProber(size int64) *prober {
	p := &prober{size: size}
	p.region = min(maxRegion, max(Align, size/int64(2*len(trials)+1)/Align*Align))
	p.order = rand.Perm(int(min(max(1, size/p.region), maxRegions)))
	return p
}

// next is what to read next.
func (p *prober) next() Extent {
	e := Extent{Off: int64(p.order[0]) * p.region}
	p.order = p.order[1:]
	e.Size = min(p.region, p.size-e.Off, p.pace())
	return e
}

// read loads the next regions, at once as t says, and returns how much that was.
func (p *prober) read(ctx context.Context, lanes []*probeLane, t trial) (n int64, err error) {
	g, all := errgroup.WithContext(ctx)
	for _, l := range lanes[:min(t.inFlight, len(p.order))] {
		e := p.next()
		n += e.Size
		g.Go(func() error { return l.load(all, e, t.chunk) })
	}
	err = g.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	p.bytes += n
	return n, err
}

// firstRead is enough to tell a slow device, and keeps it for no longer than a
// tenth of a second.
const firstRead = 1 << 20

// check makes the first read. It wakes the device, finds out whether the file
// system takes part, and shows which share of its bytes came from storage, if
// the system counts that.
func (p *prober) check(ctx context.Context, l *probeLane) (fromStorage float64, counted bool, err error) {
	runtime.LockOSThread() // the system counts by thread, and one read in flight is this one's
	defer runtime.UnlockOSThread()
	order := p.order
	before, ok := storageReads()
	e := p.next()
	err = l.load(ctx, e, maxRegion)
	p.bytes += e.Size
	after, ok2 := storageReads()
	if len(p.order) == 0 {
		p.order = order // a tiny file is read twice
	}
	return float64(after-before) / float64(e.Size), ok && ok2, err
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
		float64(p.bytes+maxInFlight*p.region) <= share*float64(o.Bytes) &&
		time.Since(p.start).Seconds() < share*o.Time.Seconds()
}

// source says whether the device was measured, and if not, what.
func source(path, note string, fromStorage float64, counted bool) (device bool, reason string) {
	kind := MemoryFS(path)
	switch {
	case kind != "":
		return false, fmt.Sprintf("%s is in memory (%s), which says nothing about a disk; on one, the file itself would take no memory", path, kind)
	case note != "" && counted && fromStorage < 0.5:
		return false, note + ", where most of it was already"
	case note != "":
		return false, note
	case counted && fromStorage < 0.5:
		return false, fmt.Sprintf("%.0f%% of the bytes came from storage, the rest from a cache of the file system", 100*fromStorage)
	}
	return true, ""
}
