package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/layerpipe/layerpipe/model/demo"
	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/pipeline/sample"
)

// runCommand is the state of pipectl run.
type runCommand struct {
	engine   engineFlags
	prompt   string
	predict  int
	sampling sample.Config
	json     bool

	stdout, stderr io.Writer
}

func newRun() *cobra.Command {
	r := &runCommand{predict: 256, sampling: sample.Config{
		Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1,
	}}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Continue a text",
		Long: `Run continues a text. The text goes to standard output as it is generated, and
statistics to standard error at the end. They say what kept the run from being
faster: storage, dequantizing or arithmetic.

The prompt comes from -p, or from standard input, of which a newline at the end
is left out. Ctrl-C ends the run within one read and shows the statistics so
far; a second one kills.`,
		Example: `  pipectl run
  pipectl run -p "Once upon a time there was a dragon" --temp 0
  pipectl run -m model.gguf -p "The capital of France is" -n 32 --buffers 3
  pipectl run -m model.gguf --seed 1 --json < prompt.txt`,
		Args: noArgs("give the prompt with -p"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.stdout, r.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return r.run(cmd)
		},
	}
	flags, s := cmd.Flags(), &r.sampling
	flags.StringVarP(&r.prompt, "prompt", "p", "", "`TEXT` to continue (default standard input; for the demo model also a text of its own)")
	addParsed(flags, &r.predict, "predict", "n", "at most `N` tokens; 0 or -1 for all until the text or the context ends (default 256)", atLeast(-1))
	r.engine.add(cmd)
	r.engine.trace.add(cmd)
	flags.Float32Var(&s.Temperature, "temp", s.Temperature, "temperature `T`: how freely tokens are chosen; 0 for always the likeliest")
	flags.IntVar(&s.TopK, "top-k", s.TopK, "choose among the `K` likeliest tokens; 0 for all")
	flags.Float32Var(&s.TopP, "top-p", s.TopP, "choose among the likeliest tokens that together have probability `P`; 1 for all")
	flags.Float32Var(&s.MinP, "min-p", s.MinP, "choose among tokens at least `P` times as likely as the likeliest; 0 for all")
	flags.Float32Var(&s.RepeatPenalty, "repeat-penalty", s.RepeatPenalty, "divide the logits of recent tokens by `X`; 1 for no penalty")
	flags.Uint64Var(&s.Seed, "seed", 0, "`SEED` of the choice, for the same text again (default a random one)")
	flags.BoolVar(&r.json, "json", false, "write nothing but the text and the statistics, as one JSON object at the end")
	return cmd
}

func (r *runCommand) run(cmd *cobra.Command) error {
	if _, err := r.engine.options(); err != nil {
		return err
	}
	if err := r.sampling.Validate(); err != nil {
		return usageError{err}
	}
	if !cmd.Flags().Changed("seed") {
		r.sampling.Seed = uint64(rand.Uint32()) // short enough to be typed again
	}
	if !cmd.Flags().Changed("prompt") {
		if err := r.readPrompt(cmd.Context(), cmd.InOrStdin()); err != nil {
			return err
		}
	}
	var need []pipeline.Option
	if r.predict > 0 {
		// A token is a byte at least; a space and a token to start the text may
		// be put before it.
		need = append(need, pipeline.WithContextAtMost(len(r.prompt)+2+r.predict))
	}
	return r.engine.use(func(e *pipeline.Engine) error { return r.generate(cmd.Context(), e) }, need...)
}

// readPrompt takes the prompt from stdin, or else the demo model's.
func (r *runCommand) readPrompt(ctx context.Context, stdin io.Reader) error {
	if !isTerminal(stdin) {
		text, err := readAll(ctx, stdin)
		if err != nil {
			return err
		}
		r.prompt = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	}
	if r.prompt == "" {
		if r.engine.model != "" {
			return usageError{hintedError{errors.New("no prompt"), "give a text to continue with -p, or on standard input"}}
		}
		r.prompt = demo.Prompt
	}
	return nil
}

// generate writes the text and, however it ends, the statistics.
func (r *runCommand) generate(ctx context.Context, e *pipeline.Engine) error {
	report := &runReport{Model: r.engine.model.name(), Seed: r.sampling.Seed}
	c := pipeline.GenConfig{Prompt: r.prompt, MaxTokens: max(r.predict, 0), Sampling: r.sampling, Stats: &report.GenStats}
	hide := func() {}
	if isTerminal(r.stderr) {
		bar := newProgress(r.stderr)
		c.Progress, hide = bar.set, sync.OnceFunc(bar.clear)
	}
	err := r.writeText(e.Generate(ctx, c), hide)
	hide()
	if r.json {
		return errors.Join(err, writeJSON(r.stdout, report))
	}
	if report.PromptTokens > 0 { // else it failed before there was anything to count
		report.write(r.stderr, r.sampling.Temperature == 0)
	}
	return err
}

// writeText writes the text as it comes. On a terminal the prompt goes before
// it, on stderr, so that the whole can be read. It calls hide when the prompt
// has been computed, before it writes.
func (r *runCommand) writeText(tokens iter.Seq2[pipeline.Token, error], hide func()) error {
	began := false
	defer func() {
		if began && isTerminal(r.stdout) {
			fmt.Fprintln(r.stdout)
		}
	}()
	for t, err := range tokens {
		if err != nil {
			return err
		}
		hide()
		if r.json {
			continue // the text is in the statistics
		}
		if !began {
			began = true
			if isTerminal(r.stderr) {
				io.WriteString(r.stderr, r.prompt)
			}
		}
		if _, err := io.WriteString(r.stdout, t.Text); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
	}
	return nil
}
