package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/layerpipe/layerpipe/model/synth"
)

// synthCommand is the state of pipectl synth.
type synthCommand struct {
	config      synth.Config
	progress    progressFlag
	out         string
	force, json bool

	stdout, stderr io.Writer
}

// A synthReport is what pipectl synth --json writes.
type synthReport struct {
	File           string     `json:"file"`
	Shape          string     `json:"shape"`
	Type           synth.Type `json:"type"`
	Seed           uint64     `json:"seed"`
	Bytes          int64      `json:"bytes"`
	Seconds        float64    `json:"seconds"` // until all was on the disk
	BytesPerSecond float64    `json:"bytes_per_second"`
}

func newSynth() *cobra.Command {
	s := &synthCommand{config: synth.Config{Seed: 1}}
	cmd := &cobra.Command{
		Use:   "synth --shape SHAPE --type TYPE -o FILE",
		Short: "Make a model with random weights",
		Long: `Synth makes a model of the llama architecture with random weights, of any size:
to learn how fast it would run on this disk and in this memory, before the real
one is downloaded. It writes as fast as the disk takes it, with little memory.
The text of such a model means nothing.

Shapes are those of TinyLlama (1b) and Llama 2 (7b, 13b, 70b), or the numbers of
layers, width, width of the feed-forward network, heads, key and value heads,
and tokens. Types are those of llama-quantize, and MXFP4:
` + typesHelp(),
		Example: `  pipectl synth --shape 7b --type Q4_K_M -o 7b.gguf
  pipectl synth --shape 2x256x512x4x2x512 --type F16 -o tiny.gguf
  pipectl run -m 7b.gguf -p "Hello" -n 8`,
		Args: noArgs("give the file with -o"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.stdout, s.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return s.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	addParsed(flags, &s.config.Shape, "shape", "", "`SHAPE`: "+strings.Join(synth.Shapes(), ", ")+", or LAYERSxDIMxFFNxHEADSxKVxVOCAB", synth.ParseShape)
	addParsed(flags, &s.config.Type, "type", "", "`TYPE` of the weights, such as Q4_K_M", synth.ParseType)
	flags.StringVarP(&s.out, "out", "o", "", "write to `FILE`, which appears when it is whole")
	flags.Uint64Var(&s.config.Seed, "seed", s.config.Seed, "`SEED` of the weights, for other ones")
	flags.BoolVar(&s.force, "force", false, "replace a file that is there")
	s.progress.add(cmd)
	flags.BoolVar(&s.json, "json", false, "write nothing but size and speed, as a JSON object")
	_ = cmd.RegisterFlagCompletionFunc("shape", cobra.FixedCompletions(synth.Shapes(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(typeNames(), cobra.ShellCompDirectiveNoFileComp))
	for _, name := range []string{"shape", "type", "out"} {
		_ = cmd.MarkFlagRequired(name) // fails for unknown flags alone
	}
	return cmd
}

func typeNames() []string {
	var names []string
	for _, t := range synth.Types() {
		names = append(names, string(t))
	}
	return names
}

func typesHelp() string {
	names := typeNames()
	var lines []string
	for line := range slices.Chunk(names, 9) {
		lines = append(lines, strings.Join(line, " "))
	}
	return strings.Join(lines, "\n")
}

func (s *synthCommand) run(ctx context.Context) error {
	total, err := synth.Size(s.config)
	if err != nil {
		return usageError{err}
	}
	if err := s.checkTarget(total); err != nil {
		return err
	}
	progress := s.progress.start(s.stderr)
	defer progress.end()
	start := time.Now()
	err = writePart(s.out, s.force, func(f *os.File) error {
		w := &diskWriter{f: f}
		if err := synth.Write(ctx, w, s.config, progress.phase(phaseWrite, "bytes")); err != nil {
			return err
		}
		return w.sync()
	})
	progress.end()
	if err != nil {
		return err
	}
	report := synthReport{File: s.out, Shape: s.config.Shape.String(), Type: s.config.Type, Seed: s.config.Seed, Bytes: total}
	report.Seconds = time.Since(start).Seconds()
	report.BytesPerSecond = float64(total) / report.Seconds
	if s.json {
		return writeJSON(s.stdout, report)
	}
	fmt.Fprintf(s.stderr, "%s: %s in %s, %s\n", s.out, size(total), duration(report.Seconds), bandwidth(report.BytesPerSecond))
	return nil
}

// checkTarget refuses a target before time is spent on it.
func (s *synthCommand) checkTarget(total int64) error {
	if s.out == "" {
		return usagef("no file name")
	}
	info, err := os.Stat(s.out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return usagef("%s is no regular file", s.out)
	case !s.force:
		return hintedError{fmt.Errorf("%s: %w", s.out, fs.ErrExist), "--force replaces it"}
	}
	free, known, err := freeBytes(filepath.Dir(s.out))
	if err != nil {
		return err
	}
	if known && free < total {
		return hintedError{
			fmt.Errorf("%s: %s are needed, %s are free on its disk", s.out, size(total), size(free)),
			"make room, write to another disk, or choose a smaller shape or type",
		}
	}
	return nil
}

// writePart gives path what fill writes, which goes to path.part until it is
// whole. If fill fails nothing is left, and path is as it was. A path.part that
// is there is only replaced with force: it may be a download.
func writePart(path string, force bool, fill func(*os.File) error) error {
	part, flag := path+".part", os.O_EXCL
	if force {
		flag = os.O_TRUNC
	}
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|flag, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return hintedError{err, "another program may be writing it; if not, it is left over, and --force replaces it"}
	}
	if err != nil {
		return err
	}
	return complete(f, path, fill)
}

// A diskWriter writes to f and sees to it that the data goes on to the disk as
// it comes, and does not stay in the page cache: the memory that a large file
// takes is small, progress is the disk's own, an interrupted program has little
// to wait for, and who reads the file next reads the disk.
type diskWriter struct {
	f              *os.File
	size           int64 // how much is written
	started, ended int64 // how much of it is on its way to the disk, and there
}

const (
	diskStep = 16 << 20 // large enough for any disk
	diskLag  = 8 * diskStep
)

func (w *diskWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	w.size += int64(n)
	if w.size-w.started >= diskStep {
		writeback(w.f, w.started, w.size-w.started, false)
		w.started = w.size
	}
	if w.size-w.ended >= diskLag+diskStep {
		w.end(diskStep)
	}
	return n, err
}

// end waits until the next n bytes are on the disk.
func (w *diskWriter) end(n int64) {
	writeback(w.f, w.ended, n, true)
	w.ended += n
}

// sync waits until all is on the disk; only then do errors of the disk show.
func (w *diskWriter) sync() error {
	err := w.f.Sync()
	w.end(w.size - w.ended)
	return err
}
