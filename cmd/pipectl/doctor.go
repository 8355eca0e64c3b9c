package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/cpu"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/tokenizer"
	"github.com/layerpipe/layerpipe/pipeline"
)

// doctorCommand is the state of pipectl doctor.
type doctorCommand struct {
	engine engineFlags
	full   bool
	json   bool

	progress       progressFlag
	shown          *progress // what progress is shown with
	stdout, stderr io.Writer
	checks         []check
}

// A check is one thing that was looked at.
type check struct {
	Name    string `json:"name"`
	Status  status `json:"status"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"` // what to do about it
}

// A status is how a check ended.
type status string

const (
	statusOK   status = "ok"
	statusWarn status = "warn" // it works, and could be better
	statusFail status = "fail" // a run would fail, or give wrong text
)

// A doctorReport is what pipectl doctor --json writes.
type doctorReport struct {
	Model    string  `json:"model"`
	Checks   []check `json:"checks"`
	Warnings int     `json:"warnings"`
	Failures int     `json:"failures"`
}

func newDoctor() *cobra.Command {
	var d doctorCommand
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check a model and the machine before a long run",
		Long: `Doctor looks for what could go wrong, or be slower than need be, before a long
run: a file that is not complete, an architecture or tokenizer that is not known,
storage, memory and its limits, the processor. Each line is ok, warn or fail, and
says what to do. With --full it reads the whole file and checks that every weight
is a finite number.

It fails if any line does. Flags of run that change what is needed can be given.`,
		Example: `  pipectl doctor -m model.gguf
  pipectl doctor -m model.gguf --full
  pipectl doctor -m model.gguf --memory 6GiB --json`,
		Args: noArgs("give the model with -m"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.stdout, d.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&d.full, "full", false, "read the whole file and check every weight")
	cmd.Flags().BoolVar(&d.json, "json", false, "write the checks as a JSON object")
	d.progress.add(cmd)
	d.engine.add(cmd)
	return cmd
}

func (d *doctorCommand) run(ctx context.Context) (err error) {
	options, err := d.engine.options()
	if err != nil {
		return err
	}
	if path, release, err := d.engine.model.file(); err != nil {
		d.fail("file", err, nil)
	} else {
		defer func() { _ = release() }() // it matters to nobody
		d.shown = d.progress.start(d.stderr)
		d.checkModel(ctx, path, options)
		d.shown.end()
	}
	d.checkMachine()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	report := doctorReport{Model: d.engine.model.name(), Checks: d.checks}
	for _, c := range d.checks {
		switch c.Status {
		case statusWarn:
			report.Warnings++
		case statusFail:
			report.Failures++
		}
	}
	if d.json {
		err = writeJSON(d.stdout, report)
	} else {
		err = report.write(d.stdout)
	}
	if err == nil && report.Failures > 0 {
		err = fmt.Errorf("%s: checks that failed: %d", report.Model, report.Failures)
	}
	return err
}

func (d *doctorCommand) add(name string, s status, advice, format string, args ...any) {
	d.checks = append(d.checks, check{name, s, fmt.Sprintf(format, args...), advice})
}

// fail adds a check that failed with err.
func (d *doctorCommand) fail(name string, err error, hints []hint) {
	advice := ""
	var h hintedError
	if errors.As(withHint(err, hints), &h) {
		advice = h.hint
	}
	d.add(name, statusFail, advice, "%v", err)
}

// checkModel looks at the file and what a run would make of it. What needs
// something that failed is left out.
func (d *doctorCommand) checkModel(ctx context.Context, path string, options []pipeline.Option) {
	f, err := gguf.Open(path)
	if err != nil {
		d.fail("file", err, openHints)
		return
	}
	var total int64
	for i := range f.Tensors {
		total += f.Tensors[i].Size
	}
	d.add("file", statusOK, "", "%s, %d tensors of %s, each complete", counted(len(f.Paths), "file"), len(f.Tensors), size(total))

	m, err := model.New(f)
	if err != nil {
		d.fail("architecture", err, openHints)
	} else {
		d.add("architecture", statusOK, "", "%s, %d layers, %d blocks", m.Arch, len(m.Layers), len(m.Blocks))
	}
	if t, tokenizerErr := tokenizer.New(f.Metadata); tokenizerErr != nil {
		d.fail("tokenizer", tokenizerErr, openHints)
	} else {
		d.add("tokenizer", statusOK, "", "%d tokens", t.Size())
	}
	probe := d.checkStorage(ctx, f, total)
	if err == nil {
		d.checkPlan(ctx, path, options, probe)
	}
	if d.full && ctx.Err() == nil {
		d.checkWeights(ctx, f)
	}
}

// checkStorage measures the storage of the largest shard, and tries direct reads.
// total is the size of all weights.
func (d *doctorCommand) checkStorage(ctx context.Context, f *gguf.File, total int64) *ioactor.ProbeResult {
	const advice = "a first run shows whether it keeps up: see what it is limited by"
	probed := d.shown.phase(phaseProbe, "probes")
	probed(0, 1)
	path := f.Paths[f.Largest()]
	r, err := ioactor.Probe(ctx, path, ioactor.ProbeOptions{Time: time.Second})
	if err != nil {
		d.add("storage", statusFail, "the file must be readable to its end", "%v", err)
		return nil
	}
	probed(1, 1)
	const (
		slow   = 200e6    // less than a hard disk of today
		enough = 16 << 20 // to tell anything by: at least a large read
	)
	switch {
	case ioactor.MemoryFS(path) != "":
		advice := fmt.Sprintf("the file itself takes %s of memory: on a disk it would leave that to blocks that stay", size(total))
		d.add("storage", statusWarn, advice, "%s, of memory and not of a disk", bandwidth(r.BytesPerSecond))
		return &r
	case total < enough:
		d.add("storage", statusOK, "", "%s, of so small a file that it says nothing", bandwidth(r.BytesPerSecond))
	case !r.Device:
		d.add("storage", statusWarn, advice, "%s, not of the device alone: %s", bandwidth(r.BytesPerSecond), r.Reason)
	case r.BytesPerSecond < slow:
		d.add("storage", statusWarn, "move the model to a faster disk", "%s, slow", bandwidth(r.BytesPerSecond))
	default:
		d.add("storage", statusOK, "", "%s, best with reads of %s, %d in flight", bandwidth(r.BytesPerSecond), size(r.Chunk), r.InFlight)
	}
	switch ok, err := directReads(path); {
	case ok:
		d.add("direct reads", statusOK, "", "the file system takes them")
	default:
		d.add("direct reads", statusWarn, "keep the model on a local ext4, xfs or btrfs, if it is larger than memory", "not here: %v; reads go through the page cache", err)
	}
	return &r
}

// checkPlan makes the plan of a run.
func (d *doctorCommand) checkPlan(ctx context.Context, path string, options []pipeline.Option, probe *ioactor.ProbeResult) {
	if probe != nil {
		options = append(options, pipeline.WithProbe(*probe))
	}
	plan, err := pipeline.PlanFor(ctx, path, options...)
	if err != nil {
		d.fail("memory", err, openHints)
		return
	}
	ceiling := ""
	if plan.Ceiling > 0 {
		ceiling = fmt.Sprintf(" of %s (%s)", size(plan.Ceiling), plan.Source)
	}
	s, advice := statusOK, ""
	if plan.Warning != "" {
		s, advice = statusWarn, plan.Warning
	}
	less := ""
	if plan.Floor < plan.Total {
		less = fmt.Sprintf("; %s would do", size(plan.Floor))
	}
	d.add("memory", s, advice, "takes %s%s%s", size(plan.Total), ceiling, less)
	if plan.StreamedBytes == 0 {
		d.add("streaming", statusOK, "", "none: all %d blocks stay in memory", plan.Blocks)
		return
	}
	d.add("streaming", statusOK, "", "%s a pass, %d of %d blocks stay in memory; about %s a token", size(plan.StreamedBytes), plan.PinnedBlocks, plan.Blocks, duration(plan.SecondsPerToken))
}

// checkMachine looks at what does not depend on the model.
func (d *doctorCommand) checkMachine() {
	d.checkCPU()
	d.checkSystem()
}

func (d *doctorCommand) checkCPU() {
	threads := runtime.NumCPU()
	if runtime.GOARCH != "amd64" {
		d.add("processor", statusWarn, "a machine with AVX2 is many times faster", "%s, %d threads: portable arithmetic only", runtime.GOARCH, threads)
		return
	}
	x := &cpu.X86
	var features []string
	for _, f := range []struct {
		name string
		has  bool
	}{{"AVX2", x.HasAVX2}, {"F16C", x.HasF16C}, {"AVX-512", x.HasAVX512BW && x.HasAVX512VL}, {"VNNI", x.HasAVX512VNNI}} {
		if f.has {
			features = append(features, f.name)
		}
	}
	if !x.HasAVX2 || !x.HasF16C {
		d.add("processor", statusWarn, "in a virtual machine, have the host pass its processor through: with AVX2 it is many times faster", "%d threads, without AVX2 and F16C: portable arithmetic only", threads)
		return
	}
	d.add("processor", statusOK, "", "%d threads, %s", threads, strings.Join(features, ", "))
}

// write writes a line for each check.
func (r *doctorReport) write(w io.Writer) error {
	var b strings.Builder
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%-4s  %-13s %s\n", c.Status, c.Name, c.Message)
		if c.Advice != "" {
			fmt.Fprintf(&b, "%-4s  %-13s -> %s\n", "", "", c.Advice)
		}
	}
	fmt.Fprintf(&b, "\n%s: %d ok, %d to know, %d failed\n", r.Model, len(r.Checks)-r.Warnings-r.Failures, r.Warnings, r.Failures)
	_, err := io.WriteString(w, b.String())
	return err
}
