package tokenizer_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/tokenizer"
)

// Token types of tokenizer.ggml.token_type.
const (
	normal      = 1
	unknown     = 2
	control     = 3
	userDefined = 4
	byteToken   = 6
)

// A token is a row of a vocabulary that a test writes by hand.
type token struct {
	text  string
	score float32
	kind  int32
}

// byteID is the id of a byte token in a vocabulary made by spmMetadata.
func byteID(b byte) int32 { return 3 + int32(b) }

// firstID is the id of the first token after the byte tokens.
const firstID = 259

// spmMetadata describes a SentencePiece vocabulary: <unk>, <s>, </s>, the 256
// byte tokens, and then the given tokens.
func spmMetadata(tokens ...token) *gguf.Metadata {
	all := []token{{"<unk>", 0, unknown}, {"<s>", 0, control}, {"</s>", 0, control}}
	for b := range 256 {
		all = append(all, token{fmt.Sprintf("<0x%02X>", b), 0, byteToken})
	}
	m := &gguf.Metadata{}
	m.Set("tokenizer.ggml.model", "llama")
	setTokens(m, append(all, tokens...))
	return m
}

func setTokens(m *gguf.Metadata, tokens []token) {
	texts := make([]string, len(tokens))
	scores := make([]float32, len(tokens))
	kinds := make([]int32, len(tokens))
	for i, t := range tokens {
		texts[i], scores[i], kinds[i] = t.text, t.score, t.kind
	}
	m.Set("tokenizer.ggml.tokens", texts)
	m.Set("tokenizer.ggml.scores", scores)
	m.Set("tokenizer.ggml.token_type", kinds)
}

func build(t testing.TB, m *gguf.Metadata) *tokenizer.Tokenizer {
	tok, err := tokenizer.New(m)
	require.NoError(t, err)
	return tok
}

func TestMalformed(t *testing.T) {
	for _, tc := range []struct {
		name string
		key  string // named by the error
		edit func(m *gguf.Metadata)
	}{
		{"no tokens", "tokens", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.tokens", []string{}) }},
		{"tokens are numbers", "tokens", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.tokens", []int32{1}) }},
		{"model is a number", "model", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.model", int32(1)) }},
		{"too few scores", "scores", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.scores", []float32{0}) }},
		{"too few types", "token_type", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.token_type", []int32{1, 1}) }},
		{"score is NaN", "scores", func(m *gguf.Metadata) {
			s, _, _ := gguf.Array[float32](m, "tokenizer.ggml.scores")
			s[7] = float32(math.NaN())
		}},
		{"byte token of another form", "tokens", func(m *gguf.Metadata) {
			s, _, _ := gguf.Array[string](m, "tokenizer.ggml.tokens")
			s[7] = "<0xZZ>"
		}},
		{"BOS out of range", "bos_token_id", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.bos_token_id", uint32(1<<20)) }},
		{"EOS negative", "eos_token_id", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.eos_token_id", int32(-2)) }},
		{"EOS beyond 32 bits", "eos_token_id", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.eos_token_id", uint64(1)<<32|5) }},
		{"EOT is a string", "eot_token_id", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.eot_token_id", "2") }},
		{"add_bos_token is a number", "add_bos_token", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.add_bos_token", int32(1)) }},
		{"add_space_prefix is a string", "add_space_prefix", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.add_space_prefix", "yes") }},
		{"name is a number", "general.name", func(m *gguf.Metadata) { m.Set("general.name", int32(3)) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := spmMetadata()
			build(t, m)
			tc.edit(m)
			_, err := tokenizer.New(m)
			require.ErrorIs(t, err, gguf.ErrFormat)
			require.ErrorContains(t, err, tc.key)
		})
	}
	_, err := tokenizer.New(&gguf.Metadata{})
	require.ErrorIs(t, err, gguf.ErrFormat)
}

func TestUnsupportedModel(t *testing.T) {
	m := spmMetadata()
	m.Set("tokenizer.ggml.model", "t5")
	_, err := tokenizer.New(m)
	require.ErrorIs(t, err, tokenizer.ErrUnsupported)
	require.ErrorContains(t, err, `"t5"`)
	require.ErrorContains(t, err, "gpt2, llama")
}

func TestMissingIDs(t *testing.T) {
	m := spmMetadata()
	m.Set("tokenizer.ggml.model", "llama")
	m.Set("tokenizer.ggml.bos_token_id", uint32(math.MaxUint32)) // how some converters write -1
	m.Set("tokenizer.ggml.eot_token_id", int32(-1))
	tok := build(t, m)
	require.Equal(t, 259, tok.Size())
	require.True(t, tok.IsEnd(2), "SentencePiece's </s>")
	require.False(t, tok.IsEnd(-1))
	require.Equal(t, "", tok.Token(-1))
	require.Equal(t, "", tok.Token(259))
	require.Equal(t, "<0x0A>", tok.Token(byteID('\n')))
}

func TestEnds(t *testing.T) {
	ends := func(tok *tokenizer.Tokenizer) (texts []string) {
		for id := range int32(tok.Size()) {
			if tok.IsEnd(id) {
				texts = append(texts, tok.Token(id))
			}
		}
		return texts
	}
	m := spmMetadata(token{"<|end|>", 0, userDefined}, token{"<end_of_turn>", 0, control}, token{"stop", 0, normal}, token{"word", 0, normal})
	m.Set("tokenizer.ggml.eot_token_id", uint32(firstID+2))
	tok := build(t, m)
	require.Equal(t, []string{"</s>", "<|end|>", "<end_of_turn>", "stop"}, ends(tok))
	require.True(t, tok.IsControl(firstID), "a token that ends a turn is not for users to type")
	require.Len(t, tok.Encode("<|end|>", tokenizer.Options{}), 10, "bytes of a space and of 7 characters")

	m = spmMetadata(token{"<|end|>", 0, control}, token{"<|return|>", 0, control}, token{"<|call|>", 0, control})
	require.Equal(t, []string{"</s>", "<|return|>", "<|call|>"}, ends(build(t, m)), "gpt-oss goes on after <|end|>")
}
