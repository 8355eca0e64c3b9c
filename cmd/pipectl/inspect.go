package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/tokenizer"
	"github.com/layerpipe/layerpipe/pipeline/chat"
)

// inspectCommand is the state of pipectl inspect.
type inspectCommand struct {
	model modelFlag
	json  bool
}

func newInspect() *cobra.Command {
	var i inspectCommand
	cmd := &cobra.Command{
		Use:   "inspect [FILE]",
		Short: "Show what is in a model's file",
		Long: `Inspect shows what a GGUF file says of its model: metadata, tensors and their
types, the blocks that a pass would stream, the vocabulary, the chat template,
and all that would keep it from running. It reads no weights, and works on files
that cannot run. FILE may also be given with -m; without either, it is the demo
model.`,
		Example: `  pipectl inspect model.gguf
  pipectl inspect model.gguf --json | jq '.blocks[0]'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return hintedError{fmt.Errorf("unexpected argument %q", args[1]), "one file at a time"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				switch {
				case i.model != "":
					return usagef("-m %s and %q: one file at a time", i.model, args[0])
				case args[0] == "":
					return usagef("no file name")
				}
				i.model = modelFlag(args[0])
			}
			return i.run(cmd.OutOrStdout())
		},
		ValidArgsFunction: cobra.FixedCompletions([]string{"gguf"}, cobra.ShellCompDirectiveFilterFileExt),
	}
	i.model.add(cmd)
	cmd.Flags().BoolVar(&i.json, "json", false, "write it as a JSON object")
	return cmd
}

func (i *inspectCommand) run(w io.Writer) error {
	path, release, err := i.model.file()
	if err != nil {
		return err
	}
	f, err := gguf.Open(path)
	err = errors.Join(err, release())
	if err != nil {
		return withHint(err, openHints[:5])
	}
	r := inspect(f)
	r.File = i.model.name()
	if i.json {
		return writeJSON(w, r)
	}
	return r.write(w)
}

// An inspection is what pipectl inspect --json writes.
type inspection struct {
	File       string            `json:"file"`
	Bytes      int64             `json:"bytes"` // of all shards
	Shards     int               `json:"shards"`
	Version    int               `json:"gguf_version"`
	BigEndian  bool              `json:"big_endian"`
	Parameters int64             `json:"parameters"`          // elements of all tensors
	Problems   []string          `json:"problems"`            // what keeps the model from running
	Params     *model.Params     `json:"params,omitempty"`    // nil for a model that is not understood
	Tokenizer  *vocabulary       `json:"tokenizer,omitempty"` // nil for one that is not understood
	Template   *templateFacts    `json:"chat_template"`       // nil if there is none
	Types      []typeUse         `json:"types"`               // from the most bytes
	Blocks     []blockFacts      `json:"blocks,omitempty"`    // what a pass streams, if each is a layer
	Resident   int64             `json:"resident_bytes"`      // vectors, which stay in memory
	ByRow      int64             `json:"by_row_bytes"`        // the embedding, of which a pass reads rows
	Metadata   []metadataPair    `json:"metadata"`            // in file order
	Tensors    []inspectedTensor `json:"tensors"`             // in file order
}

type vocabulary struct {
	Kind   string       `json:"kind"`
	Pre    string       `json:"pre,omitempty"`
	Tokens int          `json:"tokens"`
	BOS    *namedToken  `json:"bos"`
	EOS    *namedToken  `json:"eos"`
	Ends   []namedToken `json:"ends"`     // all that end an answer
	Starts bool         `json:"adds_bos"` // a text begins with BOS
}

type namedToken struct {
	ID   int32  `json:"id"`
	Text string `json:"text"`
}

type templateFacts struct {
	Bytes   int    `json:"bytes"`
	Problem string `json:"problem,omitempty"` // why it cannot be rendered
}

type typeUse struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`
}

type blockFacts struct {
	Name    string `json:"name"`
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`
}

type metadataPair struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value any    `json:"value"` // of an array, the first few
	Len   int    `json:"length,omitempty"`
}

type inspectedTensor struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Dims   []int  `json:"dims"`
	Bytes  int64  `json:"bytes"`
	Shard  int    `json:"shard"`
	Offset int64  `json:"offset"`
}

// inspect finds out all about f.
func inspect(f *gguf.File) *inspection {
	r := &inspection{Shards: len(f.Paths), Version: f.Version, BigEndian: f.BigEndian, Problems: []string{}}
	for _, n := range f.Sizes {
		r.Bytes += n
	}
	r.addTensors(f)
	r.addMetadata(f.Metadata)
	r.addModel(f)
	r.addTokenizer(f.Metadata)
	return r
}

func (r *inspection) addTensors(f *gguf.File) {
	uses := map[gguf.Type]*typeUse{}
	for _, t := range f.Tensors {
		r.Tensors = append(r.Tensors, inspectedTensor{t.Name, t.Type.String(), t.Dims, t.Size, t.File, t.Offset})
		r.Parameters += int64(t.Rows()) * int64(t.Dims[0])
		u := uses[t.Type]
		if u == nil {
			u = &typeUse{Type: t.Type.String()}
			uses[t.Type] = u
		}
		u.Tensors++
		u.Bytes += t.Size
	}
	for t, u := range uses {
		r.Types = append(r.Types, *u)
		if !dequant.Supported(t) {
			r.Problems = append(r.Problems, fmt.Sprintf("tensor type %s is not supported (%d tensors)", u.Type, u.Tensors))
		}
	}
	slices.Sort(r.Problems)
	slices.SortFunc(r.Types, func(a, b typeUse) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Type, b.Type))
	})
}

// shownElements is how much of an array is shown.
const shownElements = 8

func (r *inspection) addMetadata(m *gguf.Metadata) {
	for _, key := range m.Keys() {
		v, _ := m.Value(key)
		p := metadataPair{Key: key, Type: fmt.Sprintf("%T", v), Value: jsonable(v)}
		if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
			p.Len = list.Len()
			first := make([]any, min(p.Len, shownElements))
			for i := range first {
				first[i] = jsonable(list.Index(i).Interface())
			}
			p.Value = first
		}
		r.Metadata = append(r.Metadata, p)
	}
}

// jsonable returns v, or its name if JSON has no such number.
func jsonable(v any) any {
	switch x := v.(type) {
	case float32:
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Sprint(x)
		}
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprint(x)
		}
	}
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice { // within an array
		return fmt.Sprintf("%d elements", list.Len())
	}
	return v
}

func (r *inspection) addModel(f *gguf.File) {
	m, err := model.New(f)
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
		return
	}
	r.Params = &m.Params
	for _, b := range m.Blocks {
		r.Blocks = append(r.Blocks, blockFacts{Name: b.Name, Tensors: len(b.Tensors), Bytes: b.Bytes()})
	}
	for _, t := range m.Vectors() {
		r.Resident += t.Size
	}
	if t := m.Global.Embedding; t.Block < 0 {
		r.ByRow = t.Size
	}
}

func (r *inspection) addTokenizer(m *gguf.Metadata) {
	tok, err := tokenizer.New(m)
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
	} else {
		r.Tokenizer = describeTokenizer(tok, m)
		if r.Params != nil && tok.Size() > r.Params.Vocab {
			r.Problems = append(r.Problems, fmt.Sprintf("%d tokens and %d rows of embedding", tok.Size(), r.Params.Vocab))
		}
	}
	source, ok, err := gguf.Get[string](m, templateKey)
	if !ok && err == nil {
		return
	}
	r.Template = &templateFacts{Bytes: len(source)}
	if err == nil {
		_, err = chat.New(source, chat.Tokens{})
	}
	if err != nil {
		r.Template.Problem = err.Error()
	}
}

func describeTokenizer(tok *tokenizer.Tokenizer, m *gguf.Metadata) *vocabulary {
	v := &vocabulary{Tokens: tok.Size(), Ends: []namedToken{}}
	v.Kind, _ = gguf.GetOr(m, "tokenizer.ggml.model", "") // New has checked it
	v.Pre, _ = gguf.GetOr(m, "tokenizer.ggml.pre", "")
	if id, ok := tok.BOS(); ok {
		v.BOS = &namedToken{id, tok.Token(id)}
		start := tok.Encode("", tokenizer.Options{AddSpecial: true})
		v.Starts = len(start) > 0 && start[0] == id
	}
	if id, ok := tok.EOS(); ok {
		v.EOS = &namedToken{id, tok.Token(id)}
	}
	for id := range int32(tok.Size()) {
		if tok.IsEnd(id) {
			v.Ends = append(v.Ends, namedToken{id, tok.Token(id)})
		}
	}
	return v
}

// write writes the inspection for people. What comes from the file is quoted
// where it may be anything.
func (r *inspection) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, c)
		}
		fmt.Fprintln(t)
	}
	table := func(title string) {
		t.Flush() // columns of a table are its own
		fmt.Fprintf(t, "\n%s\n", title)
	}
	order := "little-endian"
	if r.BigEndian {
		order = "big-endian"
	}
	line("file", r.File)
	line("format", fmt.Sprintf("GGUF %d, %s, %s in %s, %d tensors, %s parameters", r.Version, order, size(r.Bytes), counted(r.Shards, "file"), len(r.Tensors), amount(r.Parameters)))
	if p := r.Params; p != nil {
		line("model", fmt.Sprintf("%s %q: %d layers of width %d, feed-forward %d, %d heads and %d of keys, context %d, vocabulary %d",
			p.Arch, p.Name, p.Layers, p.Dim, p.FFN, p.Heads, p.KVHeads, p.Context, p.Vocab))
	}
	if v := r.Tokenizer; v != nil {
		text := fmt.Sprintf("%s %s, %d tokens", v.Kind, v.Pre, v.Tokens)
		if v.BOS != nil {
			text += fmt.Sprintf(", a text begins with %d %q", v.BOS.ID, v.BOS.Text)
			if !v.Starts {
				text += " (not added)"
			}
		}
		var ends []string
		for _, e := range v.Ends {
			ends = append(ends, fmt.Sprintf("%d %q", e.ID, e.Text))
		}
		line("tokenizer", text+", ends with "+strings.Join(ends, ", "))
	}
	switch {
	case r.Template == nil:
		line("chat", "no template")
	case r.Template.Problem != "":
		line("chat", fmt.Sprintf("a template that cannot be rendered: %q", r.Template.Problem))
	default:
		line("chat", fmt.Sprintf("a template of %s", size(int64(r.Template.Bytes))))
	}
	if len(r.Problems) == 0 {
		line("runs", "yes, if there is memory: see pipectl plan")
	}
	for _, p := range r.Problems {
		line("runs not", printable(p))
	}

	table("METADATA")
	for _, p := range r.Metadata {
		line(printable(p.Key), p.text())
	}
	table("TYPES")
	for _, u := range r.Types {
		line(u.Type, fmt.Sprintf("%d tensors", u.Tensors), size(u.Bytes))
	}
	if len(r.Blocks) > 0 {
		table("BLOCKS")
		for _, b := range r.Blocks {
			line(b.Name, fmt.Sprintf("%d tensors", b.Tensors), size(b.Bytes))
		}
		line("by row", "the embedding", size(r.ByRow))
		line("resident", "vectors", size(r.Resident))
	}
	table("TENSORS")
	for _, x := range r.Tensors {
		line(printable(x.Name), x.Type, strings.Trim(strings.ReplaceAll(fmt.Sprint(x.Dims), " ", " x "), "[]"), size(x.Bytes))
	}
	return t.Flush()
}

// shownText is how much of a text is shown.
const shownText = 60

func (p *metadataPair) text() string {
	show := func(v any) string {
		s, ok := v.(string)
		switch {
		case !ok:
			return fmt.Sprint(v)
		case len(s) > shownText:
			return fmt.Sprintf("%.*q... (%s)", shownText, s, size(int64(len(s))))
		}
		return fmt.Sprintf("%q", s)
	}
	list, ok := p.Value.([]any)
	if !ok {
		return show(p.Value)
	}
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = show(v)
	}
	more := ""
	if p.Len > len(list) {
		more = ", ..."
	}
	return fmt.Sprintf("[%d] %s%s", p.Len, strings.Join(parts, ", "), more)
}

// printable quotes s if a terminal could take a part of it for a command.
func printable(s string) string {
	if q := fmt.Sprintf("%q", s); q != `"`+s+`"` && strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' || c >= 0x80 && c < 0xa0 }) {
		return q
	}
	return s
}

// amount writes a count in thousands, millions or billions.
func amount(n int64) string {
	return strings.TrimSpace(scaled(float64(n), 1000, "", "thousand", "million", "billion", "trillion"))
}
