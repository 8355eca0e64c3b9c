package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/model/demo"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/pipeline"
)

// benchCommand is the state of pipectl bench.
type benchCommand struct {
	model     modelFlag
	prompt    string
	predict   int
	rounds    int
	threads   int // 0: not given
	only      []string
	trace     traceFlag
	progress  progressFlag
	plot      string
	json, csv bool

	path           string   // of the model
	shards         []string // its files
	largest        string   // of them, which is probed
	probes         []ioactor.ProbeResult
	bytes          int64 // of them
	room           int64 // for the page cache and everything else; 0 if not known
	stdout, stderr io.Writer
}

// A way is one setting that is measured.
type way struct {
	name string
	args []string // of pipectl run
}

// ways are what bench compares, the plainest first.
var ways = []way{
	{"serial", []string{"--no-async"}},
	{"ring-2", []string{"--buffers", "2"}},
	{"ring-3", []string{"--buffers", "3"}},
	{"direct", []string{"--direct", "--buffers", "2"}},
	{"mmap-copy", []string{"--mmap=copy", "--buffers", "2"}},
	{"mmap-view", []string{"--mmap=view", "--buffers", "2"}},
	{"memory", nil}, // the planner's choice, where that is to keep all
}

// The states of the page cache that a run begins in.
const (
	cold = "cold"
	warm = "warm"
	left = "any" // what the run before has left
)

func newBench() *cobra.Command {
	b := &benchCommand{predict: 16, rounds: 3}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Compare the ways to read a model",
		Long: `Bench runs a model with each of the ways to read it, on the same prompt, and
compares them: one block at a time (serial), with a ring of 2 and 3 slots, past
the page cache, from a mapping that is copied or computed on, and with all of it
in memory if it fits. Each runs in a process of its own, with a cold and a warm
page cache where the system allows it, in rounds that take turns, so that a
machine that becomes slower does it to all. Each round begins with a probe of the
device. The figures are medians, with the least and the most.

The logits of all runs must be the same bits: if not, bench fails. A way that
fails has the reason in its row, the others go on, and bench fails at the end.
Ctrl-C shows what has been measured so far. With --trace each way leaves the trace
of its last round, with its name and the state of the cache before the extension:
out.ring-2.cold.json.`,
		Example: `  pipectl bench
  pipectl bench -m model.gguf -n 8 --rounds 5 --plot bench.svg
  pipectl bench -m model.gguf --only ring-2,direct --csv > runs.csv`,
		Args: noArgs("give the model with -m"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b.stdout, b.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return b.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	b.model.add(cmd)
	flags.StringVarP(&b.prompt, "prompt", "p", demo.Prompt, "`TEXT` to continue")
	addParsed(flags, &b.predict, "predict", "n", "generate `N` tokens (default 16)", atLeast(2))
	addParsed(flags, &b.rounds, "rounds", "", "run everything `N` times (default 3)", atLeast(1))
	addParsed(flags, &b.threads, "threads", "", "`N` threads compute (default one for each CPU)", between(1, pipeline.MaxThreads))
	addParsed(flags, &b.only, "only", "", "measure only `WAYS`, separated by commas: "+strings.Join(wayNames(), ", "), parseWays)
	b.trace.add(cmd)
	b.progress.add(cmd)
	flags.StringVar(&b.plot, "plot", "", "draw speeds, and where the time went, to `FILE`, an SVG")
	flags.BoolVar(&b.json, "json", false, "write the figures as a JSON object")
	flags.BoolVar(&b.csv, "csv", false, "write a line of comma-separated values for each run")
	_ = cmd.MarkFlagFilename("plot", "svg") // fails for unknown flags alone
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(wayNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func wayNames() []string {
	var names []string
	for _, w := range ways {
		names = append(names, w.name)
	}
	return names
}

func parseWays(s string) ([]string, error) {
	chosen := strings.Split(s, ",")
	for _, name := range chosen {
		if !slices.Contains(wayNames(), name) {
			return nil, fmt.Errorf("%q is none of %s", name, strings.Join(wayNames(), ", "))
		}
	}
	return chosen, nil
}

// A benchReport is what pipectl bench --json writes.
type benchReport struct {
	Model   string               `json:"model"`
	Prompt  string               `json:"prompt"`
	Predict int                  `json:"predict"`
	Rounds  int                  `json:"rounds"`
	Device  *ioactor.ProbeResult `json:"device,omitempty"`
	Notes   []string             `json:"notes,omitempty"`
	Results []*benchResult       `json:"results"`
	Same    bool                 `json:"logits_agree"` // of the runs that there were
	Stopped bool                 `json:"interrupted"`  // not all runs were made
}

// A benchResult is what one way did in one state of the page cache.
type benchResult struct {
	Way             string              `json:"way"`
	Cache           string              `json:"cache"`           // "cold", "warm" or "any"
	Error           string              `json:"error,omitempty"` // why there are no more runs
	TokensPerSecond spread              `json:"tokens_per_second"`
	FirstToken      spread              `json:"first_token_seconds"`
	StallShare      spread              `json:"stall_share"`
	Overlap         spread              `json:"overlap_efficiency"`
	ReadRate        spread              `json:"read_bytes_per_second"`
	DeviceShare     float64             `json:"device_share"` // of the median of ReadRate; 0 if the device was not measured
	PeakBytes       spread              `json:"peak_rss_bytes"`
	Hits            int64               `json:"prefetch_hits"` // of the last run
	Misses          int64               `json:"prefetch_misses"`
	Pass            benchPass           `json:"pass"`
	Logits          []string            `json:"logits_sha256"` // each that a run had
	Runs            []pipeline.GenStats `json:"runs"`
}

// A benchPass is where the time of a pass went on average, in seconds: medians
// of the runs.
type benchPass struct {
	Arithmetic float64 `json:"arithmetic_seconds"` // compute worked
	Stall      float64 `json:"stall_seconds"`      // compute waited for blocks
	Other      float64 `json:"other_seconds"`      // between passes: sampling, text
}

// A spread is the median of some runs, and the least and the most.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(runs []pipeline.GenStats, of func(*pipeline.GenStats) float64) spread {
	v := make([]float64, len(runs))
	for i := range runs {
		v[i] = of(&runs[i])
	}
	slices.Sort(v)
	return spread{(v[(len(v)-1)/2] + v[len(v)/2]) / 2, v[0], v[len(v)-1]}
}

// errDiffer reports that not all ways computed the same.
var errDiffer = errors.New("the logits differ")

func (b *benchCommand) run(ctx context.Context) (err error) {
	if b.json && b.csv {
		return usagef("--json and --csv are forms of which one can be chosen")
	}
	for _, path := range []string{b.plot, string(b.trace)} {
		if path == "" {
			continue
		}
		if err := checkWritable(path, b.model); err != nil {
			return err
		}
	}
	path, release, err := b.model.file()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	b.path = path
	progress := b.progress.start(b.stderr)
	defer progress.end()
	r, chosen, err := b.prepare(ctx, progress)
	if err != nil {
		return err
	}
	err = b.measure(ctx, r, chosen, progress)
	progress.end()
	if err != nil && len(r.measured()) == 0 {
		return err // there is nothing to tell
	}
	differ := r.compare()
	return errors.Join(b.write(ctx, r), err, r.failures(), differ)
}

// prepare measures the device and finds out what can be compared.
func (b *benchCommand) prepare(ctx context.Context, progress *progress) (*benchReport, []way, error) {
	r := &benchReport{Model: b.model.name(), Prompt: b.prompt, Predict: b.predict, Rounds: b.rounds, Same: true}
	plan, err := pipeline.PlanFor(ctx, b.path, pipeline.WithContextForPrompt(b.prompt, b.predict))
	if err != nil {
		return nil, nil, withHint(err, openHints)
	}
	f, err := gguf.Open(b.path)
	if err != nil {
		return nil, nil, err
	}
	b.shards, b.largest, b.room = f.Paths, f.Paths[f.Largest()], plan.Ceiling
	for _, size := range f.Sizes {
		b.bytes += size
	}
	chosen := slices.DeleteFunc(slices.Clone(ways), func(w way) bool { return len(b.only) > 0 && !slices.Contains(b.only, w.name) })
	if plan.PinnedBlocks < plan.Blocks {
		chosen = slices.DeleteFunc(chosen, func(w way) bool { return w.name == "memory" })
		r.Notes = append(r.Notes, fmt.Sprintf("not all of the model fits in memory: %s of %s do", size(plan.PinnedBytes), size(plan.ModelBytes)))
	}
	if mapped, err := ioactor.OpenMmap(f.Paths, ioactor.HintNone); err == nil {
		_ = mapped.Close() // nothing was read
	} else if errors.Is(err, errors.ErrUnsupported) {
		chosen = slices.DeleteFunc(chosen, func(w way) bool { return strings.HasPrefix(w.name, "mmap") })
		r.Notes = append(r.Notes, err.Error())
	}
	if len(chosen) == 0 {
		return nil, nil, errors.New("nothing is left to compare")
	}
	probed := progress.phase(phaseProbe, "probes")
	probed(0, 1)
	err = b.probe(ctx, r)
	switch {
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case err != nil:
		r.Notes = append(r.Notes, "the device was not measured: "+err.Error())
	default:
		probed(1, 1)
		if !r.Device.Device {
			r.Notes = append(r.Notes, "the device was not measured alone: "+r.Device.Reason)
		}
	}
	return r, chosen, nil
}

// probe measures the device once more: what r says of it is the median of all.
func (b *benchCommand) probe(ctx context.Context, r *benchReport) error {
	p, err := ioactor.Probe(ctx, b.largest, ioactor.ProbeOptions{Time: time.Second})
	if err != nil {
		return err
	}
	b.probes = append(b.probes, p)
	slices.SortFunc(b.probes, func(x, y ioactor.ProbeResult) int { return cmp.Compare(x.BytesPerSecond, y.BytesPerSecond) })
	middle := b.probes[len(b.probes)/2]
	r.Device = &middle
	return nil
}

// measure runs all rounds. Every round has each way in each state once, and
// begins with another way than the one before, and with a probe of the device,
// which may be several times slower a minute later. A way that fails in a state
// is not tried again there; the others go on. The error is that ctx has ended.
func (b *benchCommand) measure(ctx context.Context, r *benchReport, chosen []way, progress *progress) error {
	states, err := b.states(ctx, r)
	if err != nil {
		r.Stopped = ctx.Err() != nil
		return err
	}
	for _, w := range chosen {
		for _, state := range states {
			r.Results = append(r.Results, &benchResult{Way: w.name, Cache: state})
		}
	}
	show := progress.phase(phaseBench, "runs")
	done, total := 0, b.rounds*len(r.Results)
	show(0, int64(total))
	for round := range b.rounds {
		if round > 0 && r.Device != nil && r.Device.Device { // a cache is warmer now
			_ = b.probe(ctx, r) // if it fails there are others
		}
		for i := range chosen {
			at := (i + round) % len(chosen)
			for j, state := range states {
				result := r.Results[at*len(states)+j]
				if result.Error == "" {
					s, err := b.once(ctx, chosen[at], state)
					switch {
					case ctx.Err() != nil:
						r.Stopped = true
						return context.Cause(ctx)
					case err != nil:
						result.Error = err.Error()
					default:
						result.Runs = append(result.Runs, *s)
						r.note(result, s.Notes)
					}
				}
				done++
				show(int64(done), int64(total))
			}
		}
	}
	return nil
}

// states finds out in which states of the page cache runs can begin.
func (b *benchCommand) states(ctx context.Context, r *benchReport) ([]string, error) {
	var states []string
	switch dropped, err := dropCached(b.shards); {
	case err != nil:
		r.Notes = append(r.Notes, "no cold runs: "+err.Error())
	case !dropped:
		r.Notes = append(r.Notes, "no cold runs: the system keeps the file in memory")
	default:
		states = append(states, cold)
	}
	// A file that is too large is not read in vain.
	fits := b.room <= 0 || b.bytes <= b.room
	if fits {
		var err error
		if fits, err = b.warm(ctx); err != nil {
			return nil, err
		}
	}
	if fits {
		return append(states, warm), nil
	}
	r.Notes = append(r.Notes, fmt.Sprintf("no warm runs: the page cache cannot hold the %s of the file", size(b.bytes)))
	if len(states) == 0 {
		states = append(states, left)
	}
	return states, nil
}

// warm sees to it that the page cache holds the files, reading what it does not
// hold, and reports whether it does.
func (b *benchCommand) warm(ctx context.Context) (bool, error) {
	const enough = 0.99
	for range 2 {
		share, known, err := cachedShare(b.shards)
		if err != nil || known && share >= enough {
			return err == nil, err
		}
		if err := readThrough(ctx, b.shards); err != nil {
			return false, err
		}
		if !known {
			return true, nil // as far as anybody can tell
		}
	}
	share, _, err := cachedShare(b.shards)
	return share >= enough, err
}

// note keeps what a way says that is not as it was asked for.
func (r *benchReport) note(result *benchResult, notes []string) {
	for _, text := range notes {
		if text = result.Way + ": " + text; !slices.Contains(r.Notes, text) {
			r.Notes = append(r.Notes, text)
		}
	}
}

// measured are the results that have a run.
func (r *benchReport) measured() []*benchResult {
	return slices.DeleteFunc(slices.Clone(r.Results), func(x *benchResult) bool { return len(x.Runs) == 0 })
}

// compare makes the figures of what has been measured. It returns [errDiffer] unless
// all runs have computed the same.
func (r *benchReport) compare() error {
	results := r.measured()
	r.Same = true
	for _, x := range results {
		x.summarize(r.Device)
		r.Same = r.Same && slices.Equal(x.Logits, results[0].Logits) && len(x.Logits) == 1
	}
	if !r.Same {
		return errDiffer
	}
	return nil
}

// failures names the ways that have failed, and why.
func (r *benchReport) failures() error {
	var errs []error
	for _, x := range r.Results {
		if x.Error != "" {
			errs = append(errs, fmt.Errorf("%s, %s cache: %s", x.Way, x.Cache, x.Error))
		}
	}
	return errors.Join(errs...)
}

// once runs w in a process of its own.
func (b *benchCommand) once(ctx context.Context, w way, state string) (*pipeline.GenStats, error) {
	var err error
	switch state {
	case cold:
		_, err = dropCached(b.shards)
	case warm:
		var held bool
		if held, err = b.warm(ctx); err == nil && !held {
			err = errors.New("the page cache does not hold the file any more")
		}
	}
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"run", "--" + endWithStdin, "--json", "--temp", "0", "-m", b.path, "-p", b.prompt, "-n", strconv.Itoa(b.predict)}
	args = append(args, w.args...)
	if b.threads > 0 {
		args = append(args, "--threads", strconv.Itoa(b.threads))
	}
	if b.trace != "" {
		ext := filepath.Ext(string(b.trace))
		args = append(args, "--trace", fmt.Sprintf("%s.%s.%s%s", strings.TrimSuffix(string(b.trace), ext), w.name, state, ext))
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second // after which it is killed
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if _, err := cmd.StdinPipe(); err != nil { // which ends with this process, and the run with it
		return nil, err
	}
	if err := cmd.Run(); err != nil {
		if message := childMessage(stderr.String()); message != "" {
			return nil, errors.New(message)
		}
		return nil, err
	}
	s := new(pipeline.GenStats)
	if err := json.Unmarshal(stdout.Bytes(), s); err != nil {
		return nil, fmt.Errorf("statistics: %w", err)
	}
	return s, nil
}

// childMessage is the error in what a run has written to standard error, in one
// line and without the hint, which is for who gave the flags.
func childMessage(stderr string) string {
	for line := range strings.Lines(stderr) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "pipectl: ")
		if ok && !strings.HasPrefix(text, "warning: ") {
			return text
		}
	}
	return ""
}

// summarize makes the figures of the runs.
func (r *benchResult) summarize(device *ioactor.ProbeResult) {
	of := func(f func(*pipeline.GenStats) float64) spread { return spreadOf(r.Runs, f) }
	r.TokensPerSecond = of(func(s *pipeline.GenStats) float64 { return s.TokensPerSecond })
	r.FirstToken = of(func(s *pipeline.GenStats) float64 { return s.FirstTokenSeconds })
	r.Overlap = of(func(s *pipeline.GenStats) float64 { return s.OverlapEfficiency })
	r.StallShare = of(func(s *pipeline.GenStats) float64 { return s.StallShare })
	r.ReadRate = of(func(s *pipeline.GenStats) float64 { return s.ReadBytesPerSecond })
	r.PeakBytes = of(func(s *pipeline.GenStats) float64 { return float64(s.PeakRSSBytes) })
	if device != nil && device.BytesPerSecond > 0 {
		r.DeviceShare = r.ReadRate.Median / device.BytesPerSecond
	}
	pass := func(f func(*pipeline.GenStats) float64) float64 {
		return of(func(s *pipeline.GenStats) float64 { return f(s) / max(1, float64(s.Passes)) }).Median
	}
	r.Pass.Arithmetic = pass(func(s *pipeline.GenStats) float64 { return s.Actors.Compute.Working.Seconds() })
	r.Pass.Stall = pass(func(s *pipeline.GenStats) float64 { return s.StallSeconds })
	r.Pass.Other = max(0, pass(func(s *pipeline.GenStats) float64 { return s.TotalSeconds })-r.Pass.Arithmetic-r.Pass.Stall)
	last := &r.Runs[len(r.Runs)-1]
	r.Hits, r.Misses = last.PrefetchHits, last.PrefetchMisses
	for i := range r.Runs {
		if hash := r.Runs[i].LogitsSHA256; !slices.Contains(r.Logits, hash) {
			r.Logits = append(r.Logits, hash)
		}
	}
}

// readThrough reads the files, so that the page cache holds what it can.
func readThrough(ctx context.Context, paths []string) error {
	buffer := make([]byte, 1<<20)
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		for err == nil && ctx.Err() == nil {
			_, err = f.Read(buffer)
		}
		f.Close()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// write writes the report in the form that was asked for, and draws the plot.
func (b *benchCommand) write(ctx context.Context, r *benchReport) error {
	var err error
	switch {
	case b.json:
		err = writeJSON(b.stdout, r)
	case b.csv:
		err = r.writeCSV(b.stdout)
	default:
		err = r.writeTable(b.stdout)
	}
	if err == nil && b.plot != "" && len(r.measured()) > 0 {
		err = writeFile(ctx, b.plot, r.plot)
	}
	return err
}

// writeTable writes the report for people: what has been measured, and what has
// failed.
func (r *benchReport) writeTable(w io.Writer) error {
	known := func(x float64, s string) string { return cmp.Or(map[bool]string{true: "-"}[x == 0], s) }
	rows := [][]string{{"", "cache", "tokens/s", "", "first token", "hits", "misses", "stall", "overlap", "read", "device", "memory", "logits"}}
	for _, x := range r.Results {
		switch {
		case x.Error != "":
			rows = append(rows, []string{x.Way, x.Cache, "failed: " + x.Error})
			continue
		case len(x.Runs) == 0:
			continue
		}
		t := x.TokensPerSecond
		var short []string
		for _, hash := range x.Logits {
			short = append(short, hash[:min(8, len(hash))])
		}
		rows = append(rows, []string{
			x.Way, x.Cache,
			known(t.Median, count(t.Median)), known(t.Median, count(t.Min)+" to "+count(t.Max)),
			known(x.FirstToken.Median, duration(x.FirstToken.Median)),
			strconv.FormatInt(x.Hits, 10), strconv.FormatInt(x.Misses, 10),
			fmt.Sprintf("%.0f %%", 100*x.StallShare.Median),
			known(x.Overlap.Median, fmt.Sprintf("%.2f", x.Overlap.Median)),
			known(x.ReadRate.Median, bandwidth(x.ReadRate.Median)),
			known(x.DeviceShare, fmt.Sprintf("%.0f %%", 100*x.DeviceShare)),
			known(x.PeakBytes.Median, size(int64(x.PeakBytes.Median))),
			strings.Join(short, " "),
		})
	}
	measured, runs := r.measured(), 0
	for _, x := range measured {
		runs += len(x.Runs)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s: ", r.Model)
	if runs > 0 {
		s := &measured[0].Runs[0]
		fmt.Fprintf(&out, "%d tokens behind a prompt of %d, ", s.GeneratedTokens, s.PromptTokens)
	}
	fmt.Fprintf(&out, "rounds: %d; medians, and the least and the most\n\n", r.Rounds)
	writeColumns(&out, rows, 2)
	fmt.Fprintln(&out)
	if r.Stopped {
		fmt.Fprintf(&out, "interrupted after %d runs of %d\n", runs, r.Rounds*len(r.Results))
	}
	if r.Device != nil {
		fmt.Fprintf(&out, "device: %s\n", bandwidth(r.Device.BytesPerSecond))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&out, "note: %s\n", note)
	}
	switch {
	case runs == 0:
		fmt.Fprintf(&out, "nothing was measured\n")
	case r.Same:
		fmt.Fprintf(&out, "all logits are the same bits: %s\n", measured[0].Logits[0])
	default:
		fmt.Fprintf(&out, "the logits DIFFER: see the last column\n")
	}
	_, err := out.WriteTo(w)
	return err
}
