package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/model"
)

// A Plan says how an engine uses memory: what stays, what streams, and what
// everything takes. [Engine.Plan] tells the one that is followed.
type Plan struct {
	Ceiling int64  `json:"ceiling_bytes"` // what the process may take; 0 if nothing sets a limit
	Source  string `json:"ceiling_source"`

	available int64  // how large the process may become without harm; 0 if not known
	Total     int64  `json:"total_bytes"` // what it will take at most
	Items     []Item `json:"items"`       // and for what

	Buffers  int            `json:"buffers"`
	Unit     model.Unit     `json:"unit"`
	Backend  string         `json:"backend"`
	InFlight int            `json:"in_flight"` // blocks that are read at once
	KV       compute.KVType `json:"kv"`
	Context  int            `json:"context"`
	Sessions int            `json:"sessions"`     // of so much context at once
	Chunk    int            `json:"prompt_chunk"` // tokens of prompts in one pass
	Logits   int            `json:"logits_rows"`  // rows of logits at once

	Blocks        int    `json:"blocks"`
	PinnedBlocks  int    `json:"pinned_blocks"`
	PinnedBytes   int64  `json:"pinned_bytes"`
	StreamedBytes int64  `json:"streamed_bytes"` // read for each pass
	ExpandedBytes int64  `json:"expanded_bytes"` // of those, what becomes floats for each pass
	ModelBytes    int64  `json:"model_bytes"`    // all blocks
	Floor         int64  `json:"floor_bytes"`    // the least memory that works
	Warning       string `json:"warning,omitempty"`

	// Probe is what direct reads were measured to do on the model's file, nil if
	// blocks are not read so or nothing was measured.
	Probe *ioactor.ProbeResult `json:"probe,omitempty"`
	// SecondsPerToken is what decoding should take, from the rates that the
	// plan was made with; 0 without.
	SecondsPerToken float64 `json:"seconds_per_token,omitempty"`
	Rates           Rates   `json:"rates"`

	pinned  []bool
	planner *planner // that made it; nil for an engine's
}

// GoBytes is what the plan leaves to Go's runtime and the program's own pages:
// everything but slots, pins and the KV cache, which lie outside Go's heap. As a
// limit (debug.SetMemoryLimit) it keeps garbage from breaking the ceiling.
func (p *Plan) GoBytes() int64 {
	n := p.Total
	for _, i := range p.Items {
		if i.OffHeap {
			n -= i.Bytes
		}
	}
	return n
}

// More is what the plan would be with so many bytes of memory more, from the same
// measurements. It is for plans of [PlanFor] that have a ceiling.
func (p *Plan) More(bytes int64) (*Plan, error) {
	if p.planner == nil || p.Ceiling == 0 {
		return nil, errors.New("plan: it has no ceiling that could be another")
	}
	if bytes < 0 || bytes > math.MaxInt64-p.Ceiling {
		return nil, fmt.Errorf("plan: %d bytes more", bytes)
	}
	more := *p.planner
	more.ceiling += bytes
	plan, err := more.decide()
	if err != nil {
		return nil, err
	}
	plan.Backend = p.Backend
	return plan, nil
}

func (p *Plan) warn(format string, args ...any) {
	if p.Warning != "" {
		p.Warning += "; "
	}
	p.Warning += fmt.Sprintf(format, args...)
}

// An Item is one use of memory.
type Item struct {
	Name    string `json:"name"`
	Bytes   int64  `json:"bytes"`
	OffHeap bool   `json:"off_heap"` // outside of Go's heap
}

// reserve is for what cannot be known before: garbage between two collections,
// stacks.
const reserve = 16 << 20

// betweenReads passes from the end of a direct read to the beginning of the next
// where one is in flight at a time, on a machine whose cores are all busy: 0.3 to
// 1.2 ms were measured.
const betweenReads = 500 * time.Microsecond

const (
	leastChunk   = 8
	mostChunk    = 2048
	leastContext = 512 // what a context that nobody asked for shrinks to at most
)

// planner makes plans for one model.
type planner struct {
	model     *model.Model
	config    *config
	base      int64 // what the process takes already, and the vectors
	ceiling   int64 // 0: none
	source    string
	lowered   string // why the ceiling is less than what was asked for
	available int64
	rates     Rates
	cuts      []cut
}

// A cut is the model in blocks of one unit.
type cut struct {
	unit   model.Unit
	blocks []Block
	sizes  []blockSize
	slot   int64 // bytes of a slot for the largest block
}

// A blockSize is what a block takes in bytes.
type blockSize struct {
	file int64 // to be read
	pin  int64 // to stay in memory
	used int64 // of the file, that one token is multiplied with: of experts, those that are chosen
	// expand is how much of the file becomes floats for each pass if the block is
	// streamed.
	expand int64
}

// newPlanner prepares the planning of m. It may leave m cut in any way.
func newPlanner(m *model.Model, c *config, base int64) (*planner, error) {
	p := &planner{model: m, config: c, base: base, rates: defaultRates(c.threads)}
	for _, t := range m.Vectors() {
		p.base += t.Size
	}
	units := []model.Unit{c.unit}
	if c.unit == "" {
		units = []model.Unit{model.UnitLayer, model.UnitTensor}
		if !c.planned {
			units = units[:1]
		}
	}
	for _, unit := range units {
		m.Cut(unit)
		forms := tensors(m, c, nil)
		layout, err := dequant.NewPlan(forms)
		if err != nil {
			return nil, err
		}
		k := cut{unit: unit, blocks: streamBlocks(m)}
		var work int64
		for b := range k.blocks {
			size := blockSize{file: k.blocks[b].Bytes(), pin: layout.PinBytes(b), used: usedBytes(m, b)}
			for i := range forms[b] {
				if forms[b][i].Form == dequant.Expand {
					size.expand += forms[b][i].Bytes()
				}
			}
			k.sizes = append(k.sizes, size)
			work = max(work, layout.WorkBytes(b))
		}
		k.slot = slotLoad(k.blocks) + work
		p.cuts = append(p.cuts, k)
	}
	return p, nil
}

// usedBytes is how much of block b one token is multiplied with.
func usedBytes(m *model.Model, b int) (n int64) {
	for _, t := range m.Blocks[b].Tensors {
		n += m.UsedBytes(t.Tensor)
	}
	return n
}

// plan finds the ceiling, chooses the backend that was left to it, measures the
// machine if blocks are streamed, and leaves the model cut as the plan says.
func (p *planner) plan(ctx context.Context) (*Plan, error) {
	c := p.config
	if err := p.limits("/"); err != nil {
		return nil, err
	}
	plan, err := p.decide()
	if err != nil {
		return nil, err
	}
	if !c.backend.chosen() {
		c.backend = Pread
		if c.planned && plan.StreamedBytes > 0 && plan.available > 0 && fileBytes(p.model) > plan.available-plan.Total {
			c.backend = Direct
		}
	}
	if plan.StreamedBytes > 0 {
		warning, err := p.measure(ctx, plan)
		if err != nil {
			return nil, err
		}
		if plan, err = p.decide(); err != nil {
			return nil, err
		}
		if warning != nil {
			plan.warn("the storage could not be measured, the plan assumes an ordinary disk: %v", warning)
		}
	}
	c.storage.asProbed(plan.Probe, plan.Buffers)
	plan.Backend = c.backend.String()
	p.model.Cut(plan.Unit)
	return plan, nil
}

// available is how large the process may become.
type available struct {
	known  bool
	bytes  int64
	source string // what sets the limit
	room   int64  // in the control group that has the least of it
	group  string // "" if there is none with a limit
}

// limits finds the ceiling. root is "/" but in tests.
func (p *planner) limits(root string) error {
	a := availableMemory(root)
	p.available = a.bytes
	m := p.config.memory
	if !p.config.planned { // no ceiling, but what cannot be is refused all the same
		if a.known && p.leastNeed() > a.bytes {
			return &MemoryError{Ceiling: a.bytes, Source: a.source, Floor: p.floor()}
		}
		return nil
	}
	switch {
	case m.floor:
		p.ceiling, p.source = p.floor(), "the floor"
	case m.share > 0:
		files := fileBytes(p.model)
		p.ceiling, p.source = int64(m.share*float64(files)), fmt.Sprintf("%g%% of the model's %s", 100*m.share, mib(files))
	case m.bytes > 0:
		p.ceiling, p.source = m.bytes, "as asked for"
	case a.known:
		p.ceiling, p.source = a.bytes, a.source
	}
	if a.group != "" && p.ceiling > a.room {
		// What else is in the group takes a little of a limit that was asked for.
		if p.ceiling-reserve > a.room {
			p.lowered = fmt.Sprintf("%s (%s) are more than the %s leaves", mib(p.ceiling), p.source, a.group)
		}
		p.ceiling, p.source = a.room, a.group
	}
	if p.ceiling > 0 && p.ceiling < p.leastNeed() {
		return &MemoryError{Ceiling: p.ceiling, Source: p.source, Floor: p.floor()}
	}
	return nil
}

func fileBytes(m *model.Model) (n int64) {
	for _, size := range m.File.Sizes {
		n += size
	}
	return n
}

// A scope is how much there is room for at once.
type scope struct {
	context, sessions int // positions of a sequence, and sequences
	chunk             int // tokens in a pass
}

// tooMuch stands for more bytes than there are, of which a few still have a sum.
const tooMuch = 1 << 60

// cacheBytes is what the KV caches of s take.
func (p *planner) cacheBytes(s scope) int64 {
	n, err := compute.CacheBytes(&p.model.Params, p.config.kv, s.context)
	if err != nil || n > tooMuch/int64(s.sessions) {
		return tooMuch
	}
	return n * int64(s.sessions)
}

// needs lists what the process takes, with so many slots and bytes of pins.
func (p *planner) needs(k *cut, s scope, buffers int, pinned int64) []Item {
	m, c := p.model, p.config
	base := p.base
	if c.trace {
		base += traceBytes
	}
	kv, slots := p.cacheBytes(s), int64(tooMuch)
	if k.slot < tooMuch/int64(max(buffers, 1)) {
		slots = int64(buffers) * k.slot
	}
	return []Item{
		{Name: "process, tokenizer and norms", Bytes: base},
		{Name: "reserve", Bytes: reserve},
		{Name: "KV cache", Bytes: kv, OffHeap: true},
		{Name: "scratch", Bytes: compute.ScratchBytes(&m.Params, k.unit, c.threads, s.chunk, s.context)},
		{Name: "hidden states and logits", Bytes: 4 * (int64(s.chunk)*int64(m.Dim) + int64(p.logits(s.chunk))*int64(m.Vocab))},
		{Name: itemSlots, Bytes: slots, OffHeap: true},
		{Name: "page tables", Bytes: tables(kv+slots) + tables(pinned)},
		{Name: itemPins, Bytes: pinned, OffHeap: true},
	}
}

// The items that lie in huge pages where there are some.
const (
	itemSlots = "slots"
	itemPins  = "pinned blocks"
)

// tables is what the system takes to map n bytes, which a control group counts
// too: 8 bytes for each page of 4 KiB, and as much in store for each huge page.
func tables(n int64) int64 { return n / 512 }

func sum(items []Item) (n int64) {
	for _, i := range items {
		n += i.Bytes
	}
	return n
}

// floor is the least that works, with some room: the same program takes a little
// more or less each time that it starts, and a floor that was told must work.
func (p *planner) floor() int64 {
	const step = 1 << 20
	return (p.leastNeed()+2*step)/step*step + step
}

// leastNeed is the least that works for this process.
func (p *planner) leastNeed() int64 {
	var least int64
	for i := range p.cuts {
		k := &p.cuts[i]
		var pins int64
		for b, pinned := range spread(len(k.blocks), max(0, p.config.pinned)) {
			if pinned {
				pins += k.sizes[b].pin
			}
		}
		n := sum(p.needs(k, p.least(), cmp.Or(p.config.buffers, 1), pins))
		if least == 0 || n < least {
			least = n
		}
	}
	return least
}

// decide makes the plan that decodes fastest within the ceiling. If there is none
// it is a [MemoryError].
func (p *planner) decide() (*Plan, error) {
	var best *Plan
	for i := range p.cuts {
		for _, buffers := range p.depths() {
			plan := p.try(&p.cuts[i], buffers)
			// Something simpler is kept unless the other is clearly faster.
			if plan != nil && (best == nil || plan.SecondsPerToken < 0.98*best.SecondsPerToken) {
				best = plan
			}
		}
	}
	if best == nil {
		return nil, &MemoryError{Ceiling: p.ceiling, Source: p.source, Floor: p.floor()}
	}
	return best, nil
}

// busy is how long a token takes at least, in seconds, because of what the actors
// share. All cores are busy with the arithmetic, making floats, and reading where
// that is copying. And memory is busy with the weights of every product: a copy
// moves its bytes three times more, out of the page cache and into the slot, whose
// lines come first. How fast memory is, the faster of both tells.
func (p *planner) busy(k *cut, plan *Plan) float64 {
	var used int64
	for _, s := range k.sizes {
		used += s.used
	}
	r, streamed := p.rates, float64(plan.StreamedBytes)
	work := float64(used)/r.Compute*float64(p.config.threads) + float64(plan.ExpandedBytes)/r.Expand
	moved := float64(used)
	memory := r.Compute
	if r.Cached {
		work += streamed / r.Storage
		if !p.config.backend.view {
			moved += 3 * streamed
			memory = max(memory, 3*r.Storage)
		}
	}
	return max(work/float64(max(runtime.NumCPU(), p.config.threads)), moved/memory)
}

// probe is what is known of direct reads, if blocks are read so.
func (p *planner) probe() *ioactor.ProbeResult {
	if p.config.backend.device {
		return p.config.probe
	}
	return nil
}

// depths are the numbers of slots to try, the preferred first.
func (p *planner) depths() []int {
	if p.config.buffers > 0 {
		return []int{p.config.buffers}
	}
	if !p.config.planned {
		return []int{defaultBuffers}
	}
	return []int{2, 3, 4, 1}
}

// try plans with one cut and depth; nil if that does not fit.
func (p *planner) try(k *cut, buffers int) *Plan {
	c := p.config
	s := p.comfort(k)
	items := p.needs(k, s, buffers, 0)
	room := int64(1) << 62
	if p.ceiling > 0 {
		if sum(items) > p.ceiling {
			s = p.least()
			items = p.needs(k, s, buffers, 0)
		}
		if room = p.ceiling - sum(items); room < 0 {
			return nil
		}
		room -= tables(room) // of what is pinned
	}
	var pinned []bool
	switch {
	case c.pinned >= 0:
		pinned = spread(len(k.blocks), c.pinned)
	case c.planned:
		pinned = choosePins(k.sizes, room)
	default:
		pinned = make([]bool, len(k.blocks))
	}
	pinned = pinRest(pinned, k.sizes, room, buffers)

	plan := &Plan{
		Ceiling: p.ceiling, Source: p.source, Buffers: buffers, Unit: k.unit, KV: c.kv,
		Context: s.context, Sessions: s.sessions, Chunk: s.chunk, Logits: p.logits(s.chunk),
		available: p.available, Blocks: len(k.blocks), Floor: p.floor(), Rates: p.rates, Probe: p.probe(), pinned: pinned,
	}
	for b, size := range k.sizes {
		plan.ModelBytes += size.file
		if pinned[b] {
			plan.PinnedBlocks++
			plan.PinnedBytes += size.pin
		} else {
			plan.StreamedBytes += size.file
			plan.ExpandedBytes += size.expand
		}
	}
	if plan.PinnedBytes > room {
		return nil
	}
	plan.Items = p.needs(k, s, buffers, plan.PinnedBytes)
	plan.Total = sum(plan.Items)
	if p.lowered != "" {
		plan.warn("%s: the plan takes %s", p.lowered, mib(plan.Total))
	}
	if p.available > 0 && plan.Total-reserve > p.available { // a ceiling that is the limit itself is kept by the reserve
		plan.warn("the plan takes %s, and %s are free: the machine may swap or end the process", mib(plan.Total), mib(p.available))
	}
	var gap time.Duration
	if plan.InFlight = loadsAtOnce(plan.Probe, buffers); plan.InFlight == 1 && c.backend.device {
		gap = betweenReads
	}
	plan.SecondsPerToken = max(simulate(k.sizes, pinned, buffers, gap, p.rates).Seconds(), p.busy(k, plan))
	return plan
}

// comfort is how much context there is, unless one was asked for, for how many
// sessions, and how many tokens of a prompt go through in one pass, where memory
// is not so scarce that it must be the least: a quarter of the memory for the
// former, a sixteenth for the latter.
func (p *planner) comfort(k *cut) scope {
	c := p.config
	s := scope{context: c.context, sessions: max(c.sessions, 1)}
	if p.ceiling == 0 {
		s.chunk = s.most()
		return s
	}
	if s.sessions > 1 {
		one := p.cacheBytes(scope{context: s.context, sessions: 1})
		s.sessions = int(max(1, min(int64(s.sessions), p.ceiling/4/one)))
	}
	for !c.contextGiven && s.context > leastContext && p.cacheBytes(s) > p.ceiling/4 {
		s.context = max(s.context/2, leastContext)
	}
	none := s // of a chunk
	s.chunk = s.most()
	for s.chunk > leastChunk && sum(p.needs(k, s, 0, 0))-sum(p.needs(k, none, 0, 0)) > p.ceiling/16 {
		s.chunk = max(s.chunk/2, leastChunk)
	}
	return s
}

// most is how many tokens go through in one pass at most: more than a session
// has room for only with others.
func (s scope) most() int {
	if s.context > mostChunk/s.sessions {
		return mostChunk
	}
	return s.context * s.sessions
}

// logits is how many rows of logits there are at once: those that were asked for,
// but at most a pass's, or a thirty-second of the memory.
func (p *planner) logits(chunk int) int {
	n := min(max(p.config.logits, 1), max(chunk, 1))
	if memory := cmp.Or(p.ceiling, p.available); memory > 0 {
		n = min(n, max(1, int(memory/32/(4*int64(p.model.Vocab)))))
	}
	return n
}

// least is the smallest scope.
func (p *planner) least() scope {
	s := scope{context: p.config.context, sessions: 1}
	if !p.config.contextGiven {
		s.context = min(s.context, leastContext)
	}
	s.chunk = min(leastChunk, s.context)
	return s
}

// spread chooses pins of n blocks, evenly, so that the reader always has
// compute to hide behind.
func spread(n, pins int) []bool {
	pinned := make([]bool, n)
	pins = min(pins, n)
	for i := range pins {
		pinned[i*n/pins] = true
	}
	return pinned
}

// pinRest pins the blocks that are left if the ring has a slot for each of
// them anyway: they would be loaded once and lie there.
func pinRest(pinned []bool, sizes []blockSize, room int64, buffers int) []bool {
	left, bytes := 0, int64(0)
	for b, is := range pinned {
		if !is {
			left++
		}
		bytes += sizes[b].pin
	}
	if left > buffers || bytes > room {
		return pinned
	}
	for b := range pinned {
		pinned[b] = true
	}
	return pinned
}

// choosePins fills room with blocks that are spread evenly over the pass: it
// walks through them with a credit that grows by each block's share of the
// room, and pins whenever the credit suffices. What is left goes to the largest
// blocks that fit.
func choosePins(sizes []blockSize, room int64) []bool {
	var total int64
	for _, s := range sizes {
		total += s.pin
	}
	pinned := make([]bool, len(sizes))
	share, credit := min(1, float64(room)/float64(max(total, 1))), 0.0
	for b, s := range sizes {
		credit += share * float64(s.pin)
		if credit >= float64(s.pin)*0.999999 && s.pin <= room {
			pinned[b] = true
			credit -= float64(s.pin)
			room -= s.pin
		}
	}
	order := make([]int, len(sizes))
	for b := range order {
		order[b] = b
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[b].pin, sizes[a].pin) })
	for _, b := range order {
		if !pinned[b] && sizes[b].pin <= room {
			pinned[b] = true
			room -= sizes[b].pin
		}
	}
	return pinned
}

// simulate runs passes of one token through the ring: a block is read when a
// slot is free and the block before has been read, made floats of, where it needs
// that, when it is there and the block before has been, and computed when it is
// ready and the block before has been computed. It returns the time of a pass in
// the steady state. gap passes from the end of a read to the beginning of the
// next.
func simulate(sizes []blockSize, pinned []bool, buffers int, gap time.Duration, r Rates) time.Duration {
	var (
		read, ready, computed float64                    // when the last of each ended
		free                  = make([]float64, buffers) // when each slot was freed, a ring
		slot                  int
		start                 float64
	)
	const passes = 4
	for pass := range passes {
		if pass == passes-1 {
			start = computed
		}
		for b, s := range sizes {
			need := float64(s.used) / r.Compute
			if pinned[b] {
				computed += need
				continue
			}
			read = max(read, free[slot]) + float64(s.file)/r.Storage + gap.Seconds()
			ready = max(ready, read)
			if s.expand > 0 {
				ready += float64(s.expand) / r.Expand
			}
			computed = max(computed, ready) + need
			free[slot] = computed
			slot = (slot + 1) % buffers
		}
	}
	return time.Duration((computed - start) * float64(time.Second))
}
