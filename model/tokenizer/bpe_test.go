package tokenizer_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/tokenizer"
)

// bpeMetadata describes a byte-level vocabulary: the 256 bytes with the byte's
// value as id, then the given tokens.
func bpeMetadata(pre string, merges []string, tokens ...token) *gguf.Metadata {
	var all []token
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if b <= ' ' || b >= 0x7f && b <= 0xa0 || b == 0xad {
			r = next
			next++
		}
		all = append(all, token{string(r), 0, normal})
	}
	m := &gguf.Metadata{}
	m.Set("tokenizer.ggml.model", "gpt2")
	m.Set("tokenizer.ggml.pre", pre)
	m.Set("tokenizer.ggml.merges", merges)
	setTokens(m, append(all, tokens...))
	return m
}

const (
	bpeAB = 256 + iota
	bpeBC
	bpeABC
	bpeSpaceA
	bpeAA
	bpeEnd
	bpeWord
)

func bpeTokens() (merges []string, tokens []token) {
	return []string{"b c", "a b", "a bc", "Ġ a", "a a", "a b", "x y"},
		[]token{{"ab", 0, normal}, {"bc", 0, normal}, {"abc", 0, normal}, {"Ġa", 0, normal}, {"aa", 0, normal},
			{"<|eot_id|>", 0, control}, {"whole", 0, normal}}
}

func TestBPE(t *testing.T) {
	merges, tokens := bpeTokens()
	tok := build(t, bpeMetadata("gpt-2", merges, tokens...))
	for _, tc := range []struct {
		name, text string
		want       []int32
	}{
		{"empty", "", []int32{}},
		{"lowest rank first", "abc", []int32{bpeABC}},
		{"rank, not place", "ababc", []int32{bpeAB, bpeABC}},
		{"equal ranks leftmost first", "aaa", []int32{bpeAA, 'a'}},
		{"space belongs to the word", "b a", []int32{'b', bpeSpaceA}},
		{"pieces do not merge", "a1b", []int32{'a', '1', 'b'}},
		{"no merge", "whole", []int32{'w', 'h', 'o', 'l', 'e'}},
		{"merge that makes no token", "xy", []int32{'x', 'y'}},
		{"bytes", "é\xff", []int32{0xc3, 0xa9, 0xff}},
		{"control token is text", "<|eot_id|>", []int32{'<', '|', 'e', 'o', 't', '_', 'i', 'd', '|', '>'}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ids := tok.Encode(tc.text, tokenizer.Options{})
			require.Equal(t, tc.want, ids)
			require.Equal(t, tc.text, tok.Decode(ids))
		})
	}
	require.Equal(t, []int32{'a', bpeEnd}, tok.Encode("a<|eot_id|>", tokenizer.Options{AddSpecial: true, ParseSpecial: true}))
	_, ok := tok.BOS()
	require.False(t, ok)
	require.True(t, tok.IsEnd(bpeEnd))
}

// Llama 3 takes a piece that is a token as it is, and starts with BOS.
func TestBPEWholePieces(t *testing.T) {
	merges, tokens := bpeTokens()
	m := bpeMetadata("llama-bpe", merges, tokens...)
	m.Set("tokenizer.ggml.bos_token_id", uint32(bpeEnd))
	tok := build(t, m)
	require.Equal(t, []int32{bpeEnd, bpeWord}, tok.Encode("whole", tokenizer.Options{AddSpecial: true}))
	require.Equal(t, []int32{'x', 'y'}, tok.Encode("xy", tokenizer.Options{}))
}

// A merge may go through texts that are no tokens.
func TestBPEParts(t *testing.T) {
	tok := build(t, bpeMetadata("gpt-2", []string{"x y", "xy z", "é !"}, token{"xyz", 0, normal}))
	require.Equal(t, []int32{256}, tok.Encode("xyz", tokenizer.Options{}))
	require.Equal(t, []int32{'x', 'y', 'x'}, tok.Encode("xyx", tokenizer.Options{}))
}

func TestBPEMissingBytes(t *testing.T) {
	m := bpeMetadata("gpt-2", []string{"a b"})
	setTokens(m, []token{{"a", 0, normal}, {"b", 0, normal}, {"?", 0, unknown}})
	require.Equal(t, []int32{0, 1}, build(t, m).Encode("acb", tokenizer.Options{}))
	require.Equal(t, []int32{0, 1}, build(t, m).Encode("a\x00b", tokenizer.Options{}), "the first byte")
	m.Set("tokenizer.ggml.unknown_token_id", uint32(2))
	require.Equal(t, []int32{0, 2, 1, 0, 1}, build(t, m).Encode("acbab", tokenizer.Options{}))
	require.Equal(t, []int32{0, 1, 0, 1}, build(t, m).Encode("abab", tokenizer.Options{}))
}

func TestBPEMalformed(t *testing.T) {
	for _, tc := range []struct {
		name, key string
		edit      func(m *gguf.Metadata)
	}{
		{"merge without space", "merges", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.merges", []string{"a b", "ab"}) }},
		{"merge with nothing right", "merges", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.merges", []string{"a "}) }},
		{"merge with nothing left", "merges", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.merges", []string{" a"}) }},
		{"empty merge", "merges", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.merges", []string{""}) }},
		{"merges are numbers", "merges", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.merges", []int32{1}) }},
		{"pre is a number", "pre", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.pre", int32(1)) }},
		{"BOS out of range", "bos_token_id", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.bos_token_id", int32(256)) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := bpeMetadata("gpt-2", nil)
			build(t, m)
			tc.edit(m)
			_, err := tokenizer.New(m)
			require.ErrorIs(t, err, gguf.ErrFormat)
			require.ErrorContains(t, err, tc.key)
		})
	}
	m := &gguf.Metadata{}
	m.Set("tokenizer.ggml.model", "gpt2")
	m.Set("tokenizer.ggml.tokens", []string{"a"})
	_, err := tokenizer.New(m)
	require.ErrorContains(t, err, "tokenizer.ggml.merges")
}

func TestUnsupportedPreTokenizer(t *testing.T) {
	_, err := tokenizer.New(bpeMetadata("youtu", nil))
	require.ErrorIs(t, err, tokenizer.ErrUnsupported)
	require.ErrorContains(t, err, `"youtu"`)
	require.ErrorContains(t, err, "default, ")
	require.ErrorContains(t, err, "qwen2, ")
}

func TestBPELongRuns(t *testing.T) {
	merges, tokens := bpeTokens()
	for _, pre := range []string{"default", "gpt-2", "falcon", "llama-bpe", "tekken", "gpt-4o", "deepseek-llm", "deepseek-coder", "deepseek-v3", "bloom"} {
		tok := build(t, bpeMetadata(pre, merges, tokens...))
		for _, unit := range []string{"a", " ", "\n", "1", "!", "\u0301", "A", "日", " \u3000"} {
			text := strings.Repeat(unit, 1<<12) + "x"
			require.Equal(t, text, tok.Decode(tok.Encode(text, tokenizer.Options{})), pre)
		}
	}
}
