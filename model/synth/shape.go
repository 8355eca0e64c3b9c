package synth

import (
	"fmt"
	"strconv"
	"strings"
)

// A Shape is the size of a model.
type Shape struct {
	Layers  int
	Dim     int // width of the hidden state
	FFN     int // width of the feed-forward network
	Heads   int // query heads
	KVHeads int // key and value heads
	Vocab   int // tokens
}

// shapes are those of well-known models: TinyLlama 1.1B, Llama 2 7B, 13B and
// 70B.
var shapes = []struct {
	name string
	Shape
}{
	{"1b", Shape{22, 2048, 5632, 32, 4, 32000}},
	{"7b", Shape{32, 4096, 11008, 32, 32, 32000}},
	{"13b", Shape{40, 5120, 13824, 40, 40, 32000}},
	{"70b", Shape{80, 8192, 28672, 64, 8, 32000}},
}

// Shapes returns the names that [ParseShape] knows, smallest first.
func Shapes() []string {
	names := make([]string, len(shapes))
	for i, s := range shapes {
		names[i] = s.name
	}
	return names
}

// ParseShape returns the shape of a name of [Shapes], or of six numbers in the
// form LAYERSxDIMxFFNxHEADSxKVxVOCAB, such as 2x256x512x4x2x512.
func ParseShape(text string) (Shape, error) {
	for _, s := range shapes {
		if strings.EqualFold(s.name, text) {
			return s.Shape, nil
		}
	}
	var s Shape
	fields := strings.Split(text, "x")
	numbers := s.numbers()
	if len(fields) != len(numbers) {
		return Shape{}, fmt.Errorf("synth: shape %q: must be one of %s, or LAYERSxDIMxFFNxHEADSxKVxVOCAB", text, strings.Join(Shapes(), ", "))
	}
	for i, f := range fields {
		n, err := strconv.Atoi(f)
		if err != nil {
			return Shape{}, fmt.Errorf("synth: shape %q: %s %q is not a number", text, numbers[i].name, f)
		}
		*numbers[i].n = n
	}
	return s, s.validate()
}

// String returns the six numbers as [ParseShape] takes them.
func (s Shape) String() string {
	return fmt.Sprintf("%dx%dx%dx%dx%dx%d", s.Layers, s.Dim, s.FFN, s.Heads, s.KVHeads, s.Vocab)
}

// A number is one of the six.
type number struct {
	name        string
	n           *int
	least, most int
}

// numbers lists the fields in the order of the text form.
func (s *Shape) numbers() []number {
	return []number{
		{"layers", &s.Layers, 1, maxLayers},
		{"dim", &s.Dim, 1, maxWidth},
		{"ffn", &s.FFN, 1, maxWidth},
		{"heads", &s.Heads, 1, maxWidth},
		{"kv heads", &s.KVHeads, 1, maxWidth},
		{"vocab", &s.Vocab, minVocab, maxVocab},
	}
}

// Bounds above any model there is. They keep the vocabulary and the table of
// tensors, which are made in memory, to some 100 MB.
const (
	maxLayers = 1 << 16
	maxWidth  = 1 << 24
	maxVocab  = 1 << 21
)

func (s Shape) validate() error {
	for _, f := range s.numbers() {
		if *f.n < f.least || *f.n > f.most {
			return fmt.Errorf("synth: shape %v: %s %d: must be from %d to %d", s, f.name, *f.n, f.least, f.most)
		}
	}
	switch {
	case s.Dim%(2*s.Heads) != 0:
		return fmt.Errorf("synth: shape %v: dim %d does not divide among %d heads, an even part for each", s, s.Dim, s.Heads)
	case s.Heads%s.KVHeads != 0:
		return fmt.Errorf("synth: shape %v: %d heads do not divide among %d kv heads", s, s.Heads, s.KVHeads)
	}
	return nil
}

// context is how many positions the model claims to be trained for: what
// TinyLlama and Llama 2 have.
func (s Shape) context() int {
	if s.Dim < 4096 {
		return 2048
	}
	return 4096
}

// is70B reports whether llama-quantize takes the model for Llama 2 70B: it goes
// by the layers, and by the heads to tell it from Llama 65B.
func (s Shape) is70B() bool { return s.Layers == 80 && s.Heads != s.KVHeads }

// A matrix is one of a model's matrices, of rows rows of cols elements.
type matrix struct {
	role       role
	layer      int // -1 for those of the whole model
	rows, cols int
}

type role string

const (
	embedding role = "token_embd"
	output    role = "output"
	attnQ     role = "attn_q"
	attnK     role = "attn_k"
	attnV     role = "attn_v"
	attnOut   role = "attn_output"
	ffnGate   role = "ffn_gate"
	ffnUp     role = "ffn_up"
	ffnDown   role = "ffn_down"
)

// layer returns the matrices of layer l.
func (s Shape) layer(l int) []matrix {
	kv := s.Dim / s.Heads * s.KVHeads
	return []matrix{
		{attnQ, l, s.Dim, s.Dim}, {attnK, l, kv, s.Dim}, {attnV, l, kv, s.Dim}, {attnOut, l, s.Dim, s.Dim},
		{ffnGate, l, s.FFN, s.Dim}, {ffnUp, l, s.FFN, s.Dim}, {ffnDown, l, s.Dim, s.FFN},
	}
}
