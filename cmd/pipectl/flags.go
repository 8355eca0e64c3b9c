package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/demo"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/tokenizer"
	"github.com/layerpipe/layerpipe/pipeline"
)

// modelFlag is the choice of a model: a file, or "" for the one built in.
type modelFlag string

func (m *modelFlag) add(cmd *cobra.Command) {
	addParsed(cmd.Flags(), m, "model", "m", "GGUF `FILE` of the model (default the demo model that is built in)", func(s string) (modelFlag, error) {
		if s == "" {
			return "", errors.New("no file name")
		}
		return modelFlag(s), nil
	})
	_ = cmd.MarkFlagFilename("model", "gguf") // fails for unknown flags alone
}

// name is how statistics call the model.
func (m modelFlag) name() string {
	if m == "" {
		return "demo"
	}
	return string(m)
}

// file returns the path of the model's file. release must be called when the
// file is closed again. A path that is something else than a file fails here;
// one that is nothing does where it is opened.
func (m modelFlag) file() (path string, release func() error, err error) {
	if m == "" {
		path, release, err = demo.WriteTemp()
		if err != nil && !errors.Is(err, syscall.EMFILE) {
			err = hintedError{err, "set TMPDIR to a directory that takes 3 MB, or name a model of your own with -m"}
		}
		return path, release, err
	}
	if info, err := os.Stat(string(m)); err == nil {
		switch mode := info.Mode(); {
		case mode.IsDir():
			return "", nil, hintedError{fmt.Errorf("%s: a directory, not a model", m), "name the GGUF file in it; of a split model any of its files"}
		case !mode.IsRegular():
			return "", nil, hintedError{fmt.Errorf("%s: a pipe or device, not a file", m), "a model is read at many places, again and again: store it in a file first"}
		}
	}
	return string(m), func() error { return nil }, nil
}

// tokenizer reads the model's vocabulary.
func (m modelFlag) tokenizer() (tok *tokenizer.Tokenizer, err error) {
	path, release, err := m.file()
	if err != nil {
		return nil, err
	}
	f, err := gguf.Open(path)
	if err == nil {
		if tok, err = tokenizer.New(f.Metadata); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if released := release(); err == nil {
		err = released
	}
	return tok, err
}

// engineFlags are what can be set about an engine.
type engineFlags struct {
	cmd                       *cobra.Command
	model                     modelFlag
	buffers, threads, context int // 0: not given
	noAsync, direct           bool
	mmap                      mmapFlag
	hint                      ioactor.Hint
	kv                        compute.KVType // "": not given
	dequant                   dequantFlag
	memory                    pipeline.Memory // zero: not given
	unit                      model.Unit      // "": not given
	trace                     traceFlag       // of commands that compute
}

// mmapFlag says how a mapping of the file is used; "" is not at all.
type mmapFlag string

const (
	mmapCopy mmapFlag = "copy"
	mmapView mmapFlag = "view"
)

// dequantFlag says whether weights are expanded.
type dequantFlag string

const (
	dequantAuto dequantFlag = "auto"
	dequantF32  dequantFlag = "f32"
)

func (f *engineFlags) add(cmd *cobra.Command) {
	f.cmd = cmd
	flags := cmd.Flags()
	f.model.add(cmd)
	addParsed(flags, &f.memory, "memory", "", "let the process take at most `SIZE`: 6GiB, 60% of the model, or floor for the least that works (default what is available)", parseMemory)
	addParsed(flags, &f.buffers, "buffers", "", "`N` slots for blocks: one computes while the others load; without --memory nothing else stays in memory (default as planned)", between(1, pipeline.MaxBuffers))
	addParsed(flags, &f.unit, "unit", "", "stream a `UNIT` at a time, layer or tensor: a layer needs larger slots, a tensor more reads (default as planned)", func(s string) (model.Unit, error) {
		if u := model.Unit(s); u == model.UnitLayer || u == model.UnitTensor {
			return u, nil
		}
		return "", fmt.Errorf("must be %s or %s", model.UnitLayer, model.UnitTensor)
	})
	flags.BoolVar(&f.noAsync, "no-async", false, "read and compute in turns, with one slot")
	flags.BoolVar(&f.direct, "direct", false, "read past the page cache (default when the model does not fit there)")
	addParsed(flags, &f.mmap, "mmap", "", "map the file instead of reading it: --mmap=`HOW`, where HOW is copy, or view to compute on the mapped pages", func(s string) (mmapFlag, error) {
		if m := mmapFlag(s); m == mmapCopy || m == mmapView {
			return m, nil
		}
		return "", fmt.Errorf("must be %s or %s", mmapCopy, mmapView)
	})
	flags.Lookup("mmap").NoOptDefVal = string(mmapCopy)
	addParsed(flags, &f.hint, "hint", "", "tell the kernel what is read: `HINT` is none, fadvise or willneed (default none)", ioactor.ParseHint)
	addParsed(flags, &f.threads, "threads", "", "`N` threads compute (default one for each CPU)", between(1, pipeline.MaxThreads))
	addParsed(flags, &f.context, "ctx", "", "room for `N` tokens, prompt and text (default what the model was made for, at most 4096, and less if --memory has no room for that)", atLeast(1))
	addParsed(flags, &f.kv, "kv", "", "number `FORMAT` of the KV cache, f16 or f32 (default f16)", func(s string) (compute.KVType, error) {
		if kv := compute.KVType(s); kv == compute.KVF16 || kv == compute.KVF32 {
			return kv, nil
		}
		return "", fmt.Errorf("must be %s or %s", compute.KVF16, compute.KVF32)
	})
	addParsed(flags, &f.dequant, "dequant", "", "`FORM` of the weights: auto multiplies them as they are stored, f32 expands them and keeps activations in float (default auto)", func(s string) (dequantFlag, error) {
		if d := dequantFlag(s); d == dequantAuto || d == dequantF32 {
			return d, nil
		}
		return "", fmt.Errorf("must be %s or %s", dequantAuto, dequantF32)
	})
	_ = cmd.RegisterFlagCompletionFunc("dequant", cobra.FixedCompletions([]string{string(dequantAuto), string(dequantF32)}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("kv", cobra.FixedCompletions([]string{string(compute.KVF16), string(compute.KVF32)}, cobra.ShellCompDirectiveNoFileComp))
}

// options returns the engine's options. Flags that contradict each other are a
// [usageError].
func (f *engineFlags) options() ([]pipeline.Option, error) {
	switch {
	case f.noAsync && f.buffers > 1:
		return nil, usagef("--no-async has one slot, it contradicts --buffers %d", f.buffers)
	case f.noAsync && f.mmap != "", f.noAsync && f.direct, f.direct && f.mmap != "":
		return nil, usagef("--no-async, --direct and --mmap are ways to read of which one can be chosen")
	case f.hint != ioactor.HintNone && (f.direct || f.mmap == mmapView):
		return nil, usagef("--hint is about reads through the page cache, it contradicts --direct and --mmap=view")
	}
	var options []pipeline.Option
	if f.noAsync {
		options = append(options, pipeline.WithBuffers(1))
	}
	if f.memory != (pipeline.Memory{}) {
		options = append(options, pipeline.WithMemory(f.memory))
	}
	if f.unit != "" {
		options = append(options, pipeline.WithUnit(f.unit))
	}
	if f.buffers > 0 {
		options = append(options, pipeline.WithBuffers(f.buffers))
	}
	switch {
	case f.direct:
		options = append(options, pipeline.WithBackend(pipeline.Direct))
	case f.mmap == mmapCopy:
		options = append(options, pipeline.WithBackend(pipeline.Mmap))
	case f.mmap == mmapView:
		options = append(options, pipeline.WithBackend(pipeline.View))
	case f.noAsync:
		options = append(options, pipeline.WithBackend(pipeline.Pread))
	}
	if f.hint != ioactor.HintNone {
		options = append(options, pipeline.WithHint(f.hint))
	}
	if f.threads > 0 {
		options = append(options, pipeline.WithThreads(f.threads))
	}
	if f.context > 0 {
		options = append(options, pipeline.WithContext(f.context))
	}
	if f.kv != "" {
		options = append(options, pipeline.WithKV(f.kv))
	}
	if f.dequant == dequantF32 {
		options = append(options, pipeline.WithFloat32())
	}
	return options, nil
}

// use opens the engine, calls do, and closes the engine again.
func (f *engineFlags) use(do func(*pipeline.Engine) error, more ...pipeline.Option) (err error) {
	options, err := f.options()
	if err != nil {
		return err
	}
	if f.trace != "" {
		if err := checkWritable(string(f.trace), f.model); err != nil {
			return err
		}
		options = append(options, pipeline.WithTrace())
	}
	path, release, err := f.model.file()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	// One more than compute uses, so that the reader need not wait until a
	// worker is interrupted before it can send off its next read.
	threads := f.threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0) // it knows the limits of control groups
		options = append(options, pipeline.WithThreads(threads))
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads + 1))
	engine, err := pipeline.OpenContext(f.cmd.Context(), path, append(options, more...)...)
	if err != nil {
		return withHint(err, openHints)
	}
	if w := engine.Plan().Warning; w != "" { // before the harm, and not after it
		fmt.Fprintf(f.cmd.ErrOrStderr(), "pipectl: warning: %s\n", w)
	}
	// Garbage must not break the ceiling.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(engine.Plan().GoBytes()))
	err = withHint(do(engine), passHints)
	if closed := engine.Close(); err == nil {
		err = closed // an engine that failed has told do already
	}
	if written := f.trace.write(f.cmd.Context(), engine); err == nil {
		err = written
	}
	return err
}

// parsed is a flag whose values a function parses.
type parsed[T any] struct {
	to    *T
	parse func(string) (T, error)
}

// addParsed adds a flag that is set to what parse makes of its value. What
// parse refuses is wrong usage. The flag's default is the value of to; usage
// has to tell it.
func addParsed[T any](flags *pflag.FlagSet, to *T, name, short, usage string, parse func(string) (T, error)) {
	flags.VarPF(parsed[T]{to, parse}, name, short, usage).DefValue = ""
}

func (p parsed[T]) String() string { return fmt.Sprint(*p.to) }
func (p parsed[T]) Type() string   { return "value" }
func (p parsed[T]) Set(s string) error {
	v, err := p.parse(s)
	if err == nil {
		*p.to = v
	}
	return err
}

// flagError makes what package strconv says about a flag's value an error that
// says what the flag takes.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &invalid) || !errors.As(err, &number) {
		return err
	}
	says := "out of range"
	if !errors.Is(err, strconv.ErrRange) {
		switch invalid.GetFlag().Value.Type() {
		case "bool":
			says = "not true or false"
		case "float32":
			says = "not a number"
		case "uint64":
			says = "not an integer from 0 on"
		default:
			says = "not an integer"
		}
	}
	return fmt.Errorf("invalid argument %q for %q flag: %s", invalid.GetValue(), "--"+invalid.GetFlag().Name, says)
}

// parseMemory refuses a ceiling whose unit was forgotten.
func parseMemory(s string) (pipeline.Memory, error) {
	if n, err := strconv.ParseFloat(s, 64); err == nil && n > 0 && n < 1<<20 {
		return pipeline.Memory{}, fmt.Errorf("%s bytes are too few: give a unit, as in %sGiB", s, s)
	}
	return pipeline.ParseMemory(s)
}

// atLeast parses integers from least on.
func atLeast(least int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return 0, errors.New("out of range")
		case err != nil:
			return 0, errors.New("not an integer")
		case n < least:
			return 0, fmt.Errorf("must be at least %d", least)
		}
		return n, nil
	}
}

// between parses integers from least to most.
func between(least, most int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := atLeast(least)(s)
		if err == nil && n > most {
			err = fmt.Errorf("must be at most %d", most)
		}
		return n, err
	}
}

// parseIDs parses token ids that are separated by white space or commas.
func parseIDs(s string) ([]int32, error) {
	var ids []int32
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		id, err := strconv.ParseUint(f, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("token %q: not a token's number", f)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// checkIDs returns a [usageError] for the first of ids that is not in a
// vocabulary of n tokens.
func checkIDs(ids []int32, n int) error {
	for _, id := range ids {
		if int(id) >= n {
			return usagef("token %d: the model has tokens 0 to %d", id, n-1)
		}
	}
	return nil
}
