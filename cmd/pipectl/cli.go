package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/layerpipe/layerpipe/model/tokenizer"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // as if SIGINT had killed the program
)

// run executes the command line args and returns the exit code. Everything
// that it has started has ended by then, but for a read of stdin or a long text's
// encoding that the end of ctx has overtaken.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:   "pipectl",
		Short: "Run language models that are larger than memory",
		Long: `pipectl runs language models that are larger than memory. It streams the
weights from storage, block by block, while the previous block is computed.
Without -m it runs a small model that is built in.

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.`,
		Example: `  pipectl run
  pipectl run -m model.gguf -p "The three laws of thermodynamics are"`,
		Version:       buildVersion().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	began := false // what fails before a command begins is wrong usage
	for _, c := range []*cobra.Command{newRun(), newChat(), newPlan(), newLogits(), newTrace(), newBench(), newDoctor(), newTokenize(), newInspect(), newPerplexity(), newSynth(), newVersion()} {
		act := c.RunE
		c.RunE = func(cmd *cobra.Command, args []string) error {
			began = true
			return act(cmd, args)
		}
		c.Flags().SortFlags = false
		root.AddCommand(c)
	}
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, args []string) error {
			_, _, err := root.Find(args)
			return err
		}
	}
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)

	cmd, err := root.ExecuteContextC(ctx)
	var usage usageError
	var failed *fs.PathError // of help, which is written before a command begins
	began = began || errors.As(err, &failed)
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return exitOK // whoever read our output has had enough
	case !began || errors.As(err, &usage):
		hint := fmt.Sprintf("%s -h shows what it takes", cmd.CommandPath())
		if cmd == root {
			hint = "pipectl -h lists the commands; flags of a command go behind its name"
		}
		report(stderr, err, hint)
		return exitUsage
	case ctx.Err() != nil:
		report(stderr, errors.New("interrupted"), "")
		return exitInterrupted
	default:
		report(stderr, err, "")
		return exitFailed
	}
}

// unnamedFile is the path of a demo model that has no name.
var unnamedFile = regexp.MustCompile(`/proc/\d+/fd/\d+`)

// report writes err and what to do about it, unless it says so itself.
func report(w io.Writer, err error, hint string) {
	fmt.Fprintf(w, "pipectl: %s\n", unnamedFile.ReplaceAllLiteralString(strings.TrimSpace(err.Error()), "demo"))
	var h hintedError
	if errors.As(err, &h) {
		hint = h.hint
	}
	if hint != "" {
		fmt.Fprintf(w, "hint: %s\n", hint)
	}
}

// noArgs refuses operands with a hint where their content belongs.
func noArgs(hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if f := cmd.Flags().Lookup("mmap"); f != nil && f.Changed && f.Value.Set(args[0]) == nil {
			hint = "write --mmap=" + args[0]
		}
		return hintedError{fmt.Errorf("unexpected argument %q", args[0]), hint}
	}
}

// What an input may bring, lest an endless one fills the memory.
const (
	maxPrompt = 16 << 20 // bytes of a prompt or a message: millions of tokens
	maxText   = 64 << 20 // bytes of a text to tokenize or to measure
)

// readAll reads r, which is called name, to its end, which must come within most
// bytes.
func readAll(ctx context.Context, name string, r io.Reader, most int64) (string, error) {
	var text strings.Builder
	var err error
	if f, ok := r.(*os.File); ok { // room at once, and no garbage
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			text.Grow(int(min(info.Size(), most)))
		}
	}
	if left := unlessEnded(ctx, func() {
		var n int64
		if n, err = io.Copy(&text, io.LimitReader(r, most+1)); n > most {
			err = errTooLong(most)
		}
	}); left != nil {
		return "", left
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return text.String(), nil
}

// encode returns the tokens of text, of which there may be tens of MiB.
func encode(ctx context.Context, tok *tokenizer.Tokenizer, text string, o tokenizer.Options) ([]int32, error) {
	var ids []int32
	if left := unlessEnded(ctx, func() { ids = tok.Encode(text, o) }); left != nil {
		return nil, left
	}
	return ids, nil
}

// unlessEnded does f, which knows no context, and waits for its end. If ctx ends
// first, f is left behind and the cause returned: what f writes must not be read,
// and what it holds then, it must give back itself.
func unlessEnded(ctx context.Context, f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errTooLong reports that an input did not end within most bytes.
func errTooLong(most int64) error {
	return fmt.Errorf("it goes on after %s, more is not taken", size(most))
}

// writeJSON writes v as one line.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
