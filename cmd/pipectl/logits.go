package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/pipeline"
)

// logitsCommand is the state of pipectl logits.
type logitsCommand struct {
	engine   engineFlags
	progress progressFlag
	tokens   []int32
	oneByOne bool
	out      string
	json     bool
}

func newLogits() *cobra.Command {
	var l logitsCommand
	cmd := &cobra.Command{
		Use:   "logits --tokens IDS",
		Short: "Compute the logits behind every token of a sequence",
		Long: `Logits computes a sequence of tokens and writes the logits behind each of them:
little-endian float32, one row for each token with one value for each token of
the vocabulary. The tokens are taken as they are, none is added.

The bytes are the same whatever --buffers, --no-async, --mmap, --threads and
--one-by-one say.`,
		Example: `  pipectl logits --tokens 1,403,380 --out logits.f32
  pipectl logits -m model.gguf --tokens "$(pipectl tokenize -m model.gguf 'Hello')" | sha256sum
  pipectl logits -m model.gguf --tokens 1,2,3 --one-by-one --out logits.f32 --json`,
		Args: noArgs("give the tokens with --tokens"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return l.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	addParsed(flags, &l.tokens, "tokens", "", "`IDS` of the tokens, separated by commas or spaces", parseIDs)
	flags.BoolVar(&l.oneByOne, "one-by-one", false, "compute every token in a pass of its own instead of all in one")
	flags.StringVarP(&l.out, "out", "o", "", "write to `FILE`, which appears when it is whole (default standard output)")
	flags.BoolVar(&l.json, "json", false, "write shape and SHA-256 of the logits to standard output, as a JSON object; needs --out")
	l.engine.add(cmd)
	l.engine.trace.add(cmd)
	l.progress.add(cmd)
	return cmd
}

func (l *logitsCommand) run(ctx context.Context, stdout, stderr io.Writer) error {
	switch {
	case len(l.tokens) == 0:
		return usageError{hintedError{errors.New("no tokens"), "give them with --tokens; pipectl tokenize makes them from a text"}}
	case l.out == "" && l.json:
		return usagef("--json needs --out: standard output has no room for both")
	case l.out == "" && isTerminal(stdout):
		return usageError{hintedError{errors.New("logits are no text for a terminal"), "redirect standard output, or name a file with --out"}}
	}
	if l.out != "" {
		if err := checkWritable(l.out, l.engine.model); err != nil {
			return err
		}
	}
	digest, vocab := sha256.New(), 0
	err := l.engine.use(func(e *pipeline.Engine) error {
		vocab = e.Model().Vocab
		if err := checkIDs(l.tokens, vocab); err != nil {
			return err
		}
		progress := l.progress.start(stderr)
		defer progress.end()
		if l.out == "" {
			return l.write(ctx, e, stdout, digest, progress)
		}
		return writeFile(ctx, l.out, func(w io.Writer) error { return l.write(ctx, e, w, digest, progress) })
	}, pipeline.WithoutTokenizer(), pipeline.WithContextFor(len(l.tokens)), pipeline.WithLogits(len(l.tokens)))
	if err != nil || !l.json {
		return err
	}
	return writeJSON(stdout, struct {
		Shape  [2]int `json:"shape"` // tokens, vocabulary
		SHA256 string `json:"sha256"`
	}{[2]int{len(l.tokens), vocab}, hex.EncodeToString(digest.Sum(nil))})
}

// write computes the logits and writes them to w and digest.
func (l *logitsCommand) write(ctx context.Context, e *pipeline.Engine, w io.Writer, digest hash.Hash, progress *progress) error {
	if n, room := len(l.tokens), e.Plan().Context; n > room { // before anything is written
		return fmt.Errorf("%w: %d tokens in a context of %d", compute.ErrFull, n, room)
	}
	session, err := e.NewSession(0)
	if err != nil {
		return err
	}
	defer session.Close()
	w = io.MultiWriter(w, digest)
	step := e.Plan().Logits
	if l.oneByOne {
		step = 1
	}
	var row []byte
	show := progress.phase(phaseTokens, "tokens")
	for i := 0; i < len(l.tokens); i += step {
		tokens := l.tokens[i:min(i+step, len(l.tokens))]
		session.Progress = func(done, blocks int) { show(int64(i+len(tokens)*done/blocks), int64(len(l.tokens))) }
		logits, err := session.Feed(ctx, tokens, len(tokens))
		if err != nil {
			return err
		}
		for vocab := e.Model().Vocab; len(logits) > 0; logits = logits[vocab:] {
			row = row[:0]
			for _, x := range logits[:vocab] {
				row = binary.LittleEndian.AppendUint32(row, math.Float32bits(x))
			}
			if _, err := w.Write(row); err != nil {
				return fmt.Errorf("write logits: %w", err)
			}
		}
	}
	return nil
}
