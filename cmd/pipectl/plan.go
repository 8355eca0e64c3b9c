package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/layerpipe/layerpipe/pipeline"
)

// planCommand is the state of pipectl plan.
type planCommand struct {
	engine   engineFlags
	progress progressFlag
	json     bool
}

// A planReport is what pipectl plan --json writes.
type planReport struct {
	Model string `json:"model"`
	*pipeline.Plan
	// More is what one GiB more would make of it; nil if it would change nothing.
	More *pipeline.Plan `json:"with_one_gib_more,omitempty"`
}

func newPlan() *cobra.Command {
	var p planCommand
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show how a model would use memory",
		Long: `Plan shows what pipectl run would do with a model and a ceiling for memory:
which blocks stay, what is streamed for each token and how long that takes, what
everything needs, the least memory that works, and what 1 GiB more would buy. If
blocks are streamed, it reads a little of the file and multiplies a little, to
measure the storage and the arithmetic. A run knows how much context it needs and
may plan for less: give --ctx to compare.`,
		Example: `  pipectl plan -m model.gguf
  pipectl plan -m model.gguf --memory 6GiB --ctx 2048
  pipectl plan -m model.gguf --memory floor --json`,
		Args: noArgs("give the model with -m"),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd) },
	}
	p.engine.add(cmd)
	p.progress.add(cmd)
	cmd.Flags().BoolVar(&p.json, "json", false, "write the plan as a JSON object")
	return cmd
}

func (p *planCommand) run(cmd *cobra.Command) (err error) {
	options, err := p.engine.options()
	if err != nil {
		return err
	}
	path, release, err := p.engine.model.file()
	if err != nil {
		return err
	}
	defer func() {
		if closed := release(); err == nil {
			err = closed
		}
	}()
	progress := p.progress.start(cmd.ErrOrStderr())
	defer progress.end()
	probed := progress.phase(phaseProbe, "probes")
	probed(0, 1) // if what is planned needs one
	plan, err := pipeline.PlanFor(cmd.Context(), path, options...)
	if err == nil {
		probed(1, 1)
	}
	progress.end()
	if err != nil {
		return withHint(err, openHints)
	}
	report := planReport{Model: p.engine.model.name(), Plan: plan}
	if plan.Ceiling > 0 && plan.StreamedBytes > 0 {
		if report.More, err = plan.More(1 << 30); err != nil {
			return err
		}
	}
	if ctx := cmd.Context(); ctx.Err() != nil { // planning once more hears of nothing
		return context.Cause(ctx)
	}
	if p.json {
		return writeJSON(cmd.OutOrStdout(), report)
	}
	var table bytes.Buffer
	report.write(&table)
	_, err = table.WriteTo(cmd.OutOrStdout())
	return err
}

// write writes the plan as a table.
func (r *planReport) write(w io.Writer) {
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "%-30s"+format+"\n", append([]any{label}, args...)...)
	}
	if r.Ceiling > 0 {
		line("ceiling", "%10s   %s", size(r.Ceiling), r.Source)
	}
	for _, i := range r.Items {
		line("  "+i.Name, "%10s", size(i.Bytes))
	}
	line("together", "%10s   the least that works: %s", size(r.Total), size(r.Floor))
	fmt.Fprintln(w)
	line("blocks", "%10d   each a %s, %s in all", r.Blocks, r.Unit, size(r.ModelBytes))
	line("pinned", "%10d   %s stay in memory", r.PinnedBlocks, size(r.PinnedBytes))
	line("streamed", "%10d   %s for each pass (%s, buffers: %d)", r.Blocks-r.PinnedBlocks, size(r.StreamedBytes), r.Backend, r.Buffers)
	line("context", "%10d   positions, KV cache in %s; a prompt goes in passes of %d tokens", r.Context, r.KV, r.Chunk)
	measured := func(is bool) string {
		if is {
			return "measured"
		}
		return "assumed"
	}
	arithmetic := fmt.Sprintf("arithmetic at %s (%s)", bandwidth(r.Rates.Compute), measured(r.Rates.ComputeMeasured))
	switch {
	case r.StreamedBytes == 0:
		line("a token", "%10s   with %s", duration(r.SecondsPerToken), arithmetic)
	case r.Rates.Cached:
		line("a token", "%10s   with the page cache at %s (measured) and %s", duration(r.SecondsPerToken), bandwidth(r.Rates.Storage), arithmetic)
	default:
		line("a token", "%10s   with storage at %s (%s) and %s", duration(r.SecondsPerToken), bandwidth(r.Rates.Storage), measured(r.Rates.Measured), arithmetic)
	}
	if r.ExpandedBytes > 0 {
		line("expanded", "%10s   to floats for each pass, at %s (%s)", size(r.ExpandedBytes), bandwidth(r.Rates.Expand), measured(r.Rates.ComputeMeasured))
	}
	if r.More != nil {
		line("with 1 GiB more", "%10s   a token, %s for each pass", duration(r.More.SecondsPerToken), size(r.More.StreamedBytes))
	}
	if p := r.Probe; p != nil {
		pages := "ordinary pages"
		if p.HugePages {
			pages = "huge pages"
		}
		line("storage", "%10s   in reads of %s, %d at once, into %s", bandwidth(p.BytesPerSecond), size(p.Chunk), r.InFlight, pages)
		if !p.Device {
			line("", "%10s   %s", "", p.Reason)
		}
	}
	if r.Warning != "" {
		fmt.Fprintf(w, "\nwarning: %s\n", r.Warning)
	}
}
