package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/pipeline/trace"
	"github.com/layerpipe/layerpipe/stage"
)

// traceCommand is the state of pipectl trace.
type traceCommand struct {
	pass  int // -1: not given
	width int
	json  bool
}

// A traceReport is what pipectl trace --json writes.
type traceReport struct {
	File   string `json:"file"`
	Passes int    `json:"passes"` // of which all is known
	*trace.Report
}

const (
	minTraceWidth     = 40
	defaultTraceWidth = 100
)

func newTrace() *cobra.Command {
	c := traceCommand{pass: -1, width: defaultTraceWidth}
	cmd := &cobra.Command{
		Use:   "trace FILE",
		Short: "Show who worked and who waited during a pass",
		Long: `Trace draws one pass of a file that --trace has written: a row for each actor,
and below them who was on the critical path, the chain of work in which each
piece had to wait for the one before. The overlap efficiency is the time that
storage, dequantizing or arithmetic alone takes, the longest of them, divided by
the time of the pass: 1 is what cannot be better. The file itself opens in
ui.perfetto.dev.`,
		Example: `  pipectl trace out.json     # from pipectl run -m model.gguf --trace out.json
  pipectl trace out.json --pass 0 --width 160`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return hintedError{errors.New("no trace"), "name a file that --trace has written, as in pipectl trace out.json"}
			case 1:
				return nil
			}
			return hintedError{fmt.Errorf("unexpected argument %q", args[1]), "one file at a time"}
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	addParsed(flags, &c.pass, "pass", "", "show pass `N`, from 0 (default the last one of a single token)", atLeast(0))
	addParsed(flags, &c.width, "width", "", fmt.Sprintf("use `N` columns (default %d)", defaultTraceWidth), atLeast(minTraceWidth))
	flags.BoolVar(&c.json, "json", false, "write the figures as a JSON object")
	return cmd
}

func (c *traceCommand) run(ctx context.Context, path string, stdout io.Writer) error {
	f, err := open(ctx, path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	var t *trace.Trace
	if left := unlessEnded(ctx, func() { t, err = trace.Read(bufio.NewReaderSize(f, 1<<16)) }); left != nil {
		return left
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	passes := t.Passes()
	if len(passes) == 0 {
		return fmt.Errorf("%s: no pass was completed", path)
	}
	pass, err := c.choose(passes)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r := t.Analyze(pass)
	if c.json {
		return writeJSON(stdout, traceReport{path, len(passes), r})
	}
	b := bufio.NewWriter(stdout)
	g := gantt{trace: t, report: r, width: c.width - ganttLabel - ganttShare, marks: asciiMarks}
	if isTerminal(stdout) && localeUTF8() {
		g.marks = unicodeMarks
	}
	g.write(b, len(passes))
	return b.Flush()
}

func (c *traceCommand) choose(passes []trace.Pass) (trace.Pass, error) {
	if c.pass < 0 {
		for i := len(passes) - 1; i >= 0; i-- {
			if passes[i].Tokens == 1 {
				return passes[i], nil
			}
		}
		return passes[len(passes)-1], nil
	}
	for _, p := range passes {
		if p.Number == c.pass {
			return p, nil
		}
	}
	return trace.Pass{}, fmt.Errorf("no pass %d; it has %d to %d", c.pass, passes[0].Number, passes[len(passes)-1].Number)
}

// localeUTF8 reports whether the user's terminal is to get UTF-8.
func localeUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			v = strings.ToUpper(strings.ReplaceAll(v, "-", ""))
			return strings.Contains(v, "UTF8")
		}
	}
	return false
}

// marks are what a chart is drawn with.
type marks struct {
	work        [2]string // by turns, so that one block can be told from the next
	input, room string
}

var (
	unicodeMarks = marks{work: [2]string{"█", "▒"}, input: "·", room: "-"}
	asciiMarks   = marks{work: [2]string{"#", "="}, input: ".", room: "-"}
	// pathMarks are the first letters of what the actors do.
	pathMarks = [3]string{"S", "D", "A"}
)

const (
	ganttLabel = len("dequantizer  ")
	ganttShare = len("  100.0 %")
)

// A gantt draws a pass.
type gantt struct {
	trace  *trace.Trace
	report *trace.Report
	width  int // of the bars, in columns
	marks  marks
}

func (g *gantt) write(w io.Writer, passes int) {
	r := g.report
	seconds := func(d time.Duration) string { return duration(d.Seconds()) }
	fmt.Fprintf(w, "pass %d (of %d recorded): %s in %s\n\n", r.Pass.Number, passes, counted(r.Pass.Tokens, "token"), seconds(r.Pass.Time()))
	begin, end := "0 s", seconds(r.Pass.Time())
	pad := max(1, g.width-utf8.RuneCountInString(begin)-utf8.RuneCountInString(end))
	fmt.Fprintf(w, "%*s%s%s%s  working\n", ganttLabel, "", begin, strings.Repeat(" ", pad), end)
	for i, name := range trace.Actors {
		a := r.Actors[i]
		fmt.Fprintf(w, "%-*s%s  %5.1f %%\n", ganttLabel, name, g.row(name), g.percent(a.Working))
	}
	fmt.Fprintf(w, "%-*s%s\n\n", ganttLabel, "critical", g.pathRow())
	fmt.Fprintf(w, "%s%s work, block by block   %s waits for a block   %s waits for a free slot\n",
		g.marks.work[0], g.marks.work[1], g.marks.input, g.marks.room)
	var parts []string
	for i, a := range r.Actors {
		parts = append(parts, fmt.Sprintf("%s (%s) %.1f %%", trace.Names[i], pathMarks[i], g.percent(a.Critical)))
	}
	fmt.Fprintf(w, "critical path       %s, handing over %.1f %%\n", strings.Join(parts, ", "), g.percent(r.Handover))
	fmt.Fprintf(w, "bounded by          %s\n", r.Limiter)
	most := 0
	for i, a := range r.Actors {
		if a.Working > r.Actors[most].Working {
			most = i
		}
	}
	fmt.Fprintf(w, "overlap efficiency  %.3f: %s alone takes %s\n", r.OverlapEfficiency, trace.Names[most], seconds(r.Actors[most].Working))
}

func (g *gantt) percent(d time.Duration) float64 {
	return 100 * d.Seconds() / g.report.Pass.Time().Seconds()
}

// cells divides the time from start to end among the columns: visit gets the
// column and how much of it is covered.
func (g *gantt) cells(start, end time.Duration, visit func(column int, part time.Duration)) {
	p := g.report.Pass
	start, end = max(start, p.Start), min(end, p.End)
	edge := func(column int) time.Duration {
		return p.Start + time.Duration(float64(p.Time())*float64(column)/float64(g.width))
	}
	first := int(float64(start-p.Start) / float64(p.Time()) * float64(g.width))
	for c := max(0, first-1); c < g.width && edge(c) < end; c++ {
		if part := min(end, edge(c+1)) - max(start, edge(c)); part > 0 {
			visit(c, part)
		}
	}
}

// draw gives each column the mark of that number with most time in it.
func (g *gantt) draw(marks []string, times [][]time.Duration) string {
	var row strings.Builder
	for _, column := range times {
		best, most := -1, time.Duration(0)
		for m, d := range column {
			if d > most {
				best, most = m, d
			}
		}
		if best < 0 {
			row.WriteByte(' ')
		} else {
			row.WriteString(marks[best])
		}
	}
	return row.String()
}

func (g *gantt) columns(marks int) [][]time.Duration {
	columns := make([][]time.Duration, g.width)
	for i := range columns {
		columns[i] = make([]time.Duration, marks)
	}
	return columns
}

// row draws what an actor did.
func (g *gantt) row(name string) string {
	columns := g.columns(4)
	track := g.trace.Track(name)
	if track == nil {
		return g.draw(nil, columns)
	}
	block, turn := -1, 0
	for _, e := range track.Events {
		var mark int
		switch e.Activity {
		case stage.Reading:
			continue
		case stage.Working:
			if e.Block != block {
				block, turn = e.Block, 1-turn
			}
			mark = turn
		case stage.WaitingInput:
			mark = 2
		default:
			mark = 3
		}
		g.cells(e.Start, e.End, func(column int, part time.Duration) { columns[column][mark] += part })
	}
	return g.draw([]string{g.marks.work[0], g.marks.work[1], g.marks.input, g.marks.room}, columns)
}

// pathRow draws whose work the pass had to wait for.
func (g *gantt) pathRow() string {
	columns := g.columns(4)
	for _, s := range g.report.Path {
		mark := s.Actor
		if mark < 0 {
			mark = 3
		}
		g.cells(s.Start, s.End, func(column int, part time.Duration) { columns[column][mark] += part })
	}
	return g.draw([]string{pathMarks[0], pathMarks[1], pathMarks[2], " "}, columns)
}

// traceFlag is the file that a trace is written to, "" for none.
type traceFlag string

func (f *traceFlag) add(cmd *cobra.Command) {
	addParsed(cmd.Flags(), f, "trace", "", "write what every actor did when to `FILE`, for pipectl trace and ui.perfetto.dev", func(s string) (traceFlag, error) {
		if s == "" {
			return "", errors.New("no file name")
		}
		return traceFlag(s), nil
	})
	_ = cmd.MarkFlagFilename("trace", "json") // fails for unknown flags alone
}

// write writes the trace of e, if one was asked for.
func (f traceFlag) write(ctx context.Context, e *pipeline.Engine) error {
	if f == "" {
		return nil
	}
	return writeFile(ctx, string(f), e.Trace().Write)
}
