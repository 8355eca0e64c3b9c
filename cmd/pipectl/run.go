package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/layerpipe/layerpipe/model/demo"
	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/pipeline/chat"
)

// endWithStdin is a flag for bench.
const endWithStdin = "end-with-stdin"

// runCommand is the state of pipectl run.
type runCommand struct {
	engine   engineFlags
	prompt   string
	generate generateFlags
	chat     bool
	template templateFlags
	progress progressFlag
	json     bool
	// endWithStdin ends the run when its standard input does: the other end is held
	// by a bench, and the system closes it however that ends.
	endWithStdin bool

	stdout, stderr io.Writer
}

func newRun() *cobra.Command {
	r := &runCommand{generate: newGenerateFlags(256)}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Continue a text",
		Long: `Run continues a text. The text goes to standard output as it is generated, and
statistics to standard error at the end. They say what kept the run from being
faster: storage, dequantizing, arithmetic, or pinning the blocks that stay.

The prompt comes from -p, or from standard input: at most 16 MiB, without the
newline at the end. With --chat it is a message, and the model answers it: the
prompt is what the model's chat template makes of it. Nothing in a message is
taken for a control token.

Ctrl-C ends the run within one read and shows the statistics so far; a second
one kills.`,
		Example: `  pipectl run
  pipectl run -p "Once upon a time there was a dragon" --temp 0
  pipectl run -m model.gguf -p "The capital of France is" -n 32 --buffers 3
  pipectl run -m model.gguf --chat -p "Name three rivers" --system "Be brief"
  pipectl run -m model.gguf --seed 1 --json < prompt.txt`,
		Args: noArgs("give the prompt with -p"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.stdout, r.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return r.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&r.prompt, "prompt", "p", "", "`TEXT` to continue (default standard input; for the demo model also a text of its own)")
	flags.BoolVar(&r.chat, "chat", false, "take the prompt for a message, and answer it")
	r.template.add(cmd)
	r.generate.addPredict(cmd, "256")
	r.engine.add(cmd)
	r.engine.trace.add(cmd)
	r.progress.add(cmd)
	r.generate.addSampling(cmd)
	flags.BoolVar(&r.json, "json", false, "write nothing but the text and the statistics, as one JSON object at the end")
	flags.BoolVar(&r.endWithStdin, endWithStdin, false, "end when standard input does")
	_ = flags.MarkHidden(endWithStdin) // fails for unknown flags alone
	return cmd
}

func (r *runCommand) run(cmd *cobra.Command) error {
	if _, err := r.engine.options(); err != nil {
		return err
	}
	if err := r.generate.check(cmd); err != nil {
		return err
	}
	if !r.chat && (r.template.system != "" || r.template.template != "") {
		return usagef("--system and --chat-template need --chat")
	}
	if r.endWithStdin {
		ctx, cancel := context.WithCancel(cmd.Context())
		defer cancel()
		cmd.SetContext(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, cmd.InOrStdin())
			cancel()
		}()
	}
	if !cmd.Flags().Changed("prompt") {
		if err := r.readPrompt(cmd.Context(), cmd.InOrStdin()); err != nil {
			return err
		}
	}
	var need []pipeline.Option
	if n := r.generate.predict; n > 0 && !r.chat { // what a template adds is not known before the model is open
		need = append(need, pipeline.WithContextForPrompt(r.prompt, n))
	}
	report := &runReport{Model: r.engine.model.name(), Seed: r.generate.seed()}
	written := false
	err := r.engine.use(func(e *pipeline.Engine) error {
		written = true
		return r.write(cmd.Context(), e, report)
	}, need...)
	if cmd.Context().Err() != nil && !written && r.json { // interrupted before there was an engine
		report.StopReason = "cancelled"
		err = errors.Join(err, writeJSON(r.stdout, report))
	}
	return err
}

// readPrompt takes the prompt from stdin, or else the demo model's.
func (r *runCommand) readPrompt(ctx context.Context, stdin io.Reader) error {
	if !isTerminal(stdin) {
		text, err := readAll(ctx, "standard input", stdin, maxPrompt)
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

// write writes the text and, however it ends, the statistics.
func (r *runCommand) write(ctx context.Context, e *pipeline.Engine, report *runReport) error {
	c := r.generate.config()
	c.Prompt, c.Stats = r.prompt, &report.GenStats
	if r.chat {
		encoder, err := r.template.encoder(ctx, e)
		if err != nil {
			return err
		}
		messages := append(r.template.messages(), chat.Message{Role: "user", Content: r.prompt})
		if c.Tokens, err = encoder.Encode(messages, chat.Options{Answer: true}); err != nil {
			return withTemplateHint(err)
		}
	}
	progress := r.progress.start(r.stderr)
	c.Progress = progress.prompt(e)
	err := r.writeText(e.Generate(ctx, c), progress.end)
	progress.end()
	if r.json {
		if err != nil && ctx.Err() == nil {
			report.Error = err.Error()
		}
		return errors.Join(err, writeJSON(r.stdout, report))
	}
	if report.PrefetchHits+report.PrefetchMisses > 0 { // else it failed before there was anything to count
		report.write(r.stderr)
	}
	return err
}

// writeText writes the text as it comes. On a terminal a prompt that it continues
// goes before it, on stderr, so that the whole can be read. It calls hide when the prompt
// has been computed, before it writes.
func (r *runCommand) writeText(tokens iter.Seq2[pipeline.Token, error], hide func()) error {
	began := false
	defer func() {
		if began && isTerminal(r.stdout) {
			fmt.Fprintln(r.stdout)
		} else if began && sameFile(r.stdout, r.stderr) { // the statistics begin a line there too
			fmt.Fprintln(r.stderr)
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
			if isTerminal(r.stderr) && !r.chat {
				io.WriteString(r.stderr, r.prompt)
			}
		}
		if _, err := io.WriteString(r.stdout, t.Text); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
	}
	return nil
}
