package tokenizer_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/tokenizer"
)

const (
	idSpace = firstID + iota
	idA
	idB
	idAB
	idBA
	idSpaceA
	idAA
	idTag
)

// small is a vocabulary over a, b and space in which the scores, and not the
// lengths, decide: "ab" is merged before "ba" before "▁a" before "aa".
func small() []token {
	return []token{
		{"▁", -9, normal}, {"a", -9, normal}, {"b", -9, normal},
		{"ab", -1, normal}, {"ba", -2, normal}, {"▁a", -3, normal}, {"aa", -4, normal},
		{"<tag>", 0, userDefined},
	}
}

func TestSPM(t *testing.T) {
	tok := build(t, spmMetadata(small()...))
	for _, tc := range []struct {
		name, text string
		opt        tokenizer.Options
		want       []int32
	}{
		{"empty", "", tokenizer.Options{}, []int32{}},
		{"empty with BOS", "", tokenizer.Options{AddSpecial: true}, []int32{1}},
		{"space is prefixed", "a", tokenizer.Options{}, []int32{idSpaceA}},
		{"BOS", "a", tokenizer.Options{AddSpecial: true}, []int32{1, idSpaceA}},
		{"best score first", "ab", tokenizer.Options{}, []int32{idSpace, idAB}},
		{"merging takes a neighbour away", "aba", tokenizer.Options{}, []int32{idSpace, idAB, idA}},
		{"second best", "baa", tokenizer.Options{}, []int32{idSpace, idBA, idA}},
		{"equal scores leftmost first", "caaa", tokenizer.Options{}, []int32{idSpace, byteID('c'), idAA, idA}},
		{"several words", "a ab  a", tokenizer.Options{}, []int32{idSpaceA, idSpace, idAB, idSpace, idSpaceA}},
		{"bytes", "é", tokenizer.Options{}, []int32{idSpace, byteID(0xc3), byteID(0xa9)}},
		{"invalid UTF-8", "a\xffa", tokenizer.Options{}, []int32{idSpaceA, byteID(0xff), idA}},
		{"user-defined token", "a<tag>a", tokenizer.Options{}, []int32{idSpaceA, idTag, idSpaceA}},
		{"control token is text", "</s>", tokenizer.Options{}, []int32{idSpace, byteID('<'), byteID('/'), byteID('s'), byteID('>')}},
		{"control token is parsed", "a</s>", tokenizer.Options{ParseSpecial: true}, []int32{idSpaceA, 2}},
		{"control token in a literal part", "a</s>", tokenizer.Options{ParseSpecial: true, Literal: []tokenizer.Range{{Start: 1, End: 5}}}, []int32{idSpaceA, byteID('<'), byteID('/'), byteID('s'), byteID('>')}},
		{"control token that a literal part touches", "a</s>", tokenizer.Options{ParseSpecial: true, Literal: []tokenizer.Range{{Start: 0, End: 2}}}, []int32{idSpaceA, byteID('<'), byteID('/'), byteID('s'), byteID('>')}},
		{"control token between literal parts", "a</s>a", tokenizer.Options{ParseSpecial: true, Literal: []tokenizer.Range{{Start: 0, End: 1}, {Start: 5, End: 6}}}, []int32{idSpaceA, 2, idSpaceA}},
		{"user-defined token in a literal part", "a<tag>a", tokenizer.Options{ParseSpecial: true, Literal: []tokenizer.Range{{Start: 0, End: 7}}}, []int32{idSpaceA, idTag, idSpaceA}},
		{"unknown token is parsed", "<unk>", tokenizer.Options{ParseSpecial: true}, []int32{0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ids := tok.Encode(tc.text, tc.opt)
			require.Equal(t, tc.want, ids)
			require.Equal(t, tok.Decode(ids), stream(tok, ids))
		})
	}
}

func TestSpecial(t *testing.T) {
	tok := build(t, spmMetadata(small()...))
	require.Equal(t, []tokenizer.Range{{Start: 1, End: 5}, {Start: 10, End: 15}}, tok.Special("a</s><tag><unk>"))
	require.Empty(t, tok.Special("nothing"))
}

func TestSPMOptions(t *testing.T) {
	m := spmMetadata(small()...)
	m.Set("tokenizer.ggml.add_space_prefix", false)
	m.Set("tokenizer.ggml.add_bos_token", false)
	m.Set("tokenizer.ggml.add_eos_token", true)
	tok := build(t, m)
	require.Equal(t, []int32{idA, 2}, tok.Encode("a", tokenizer.Options{AddSpecial: true}))
	require.Equal(t, []int32{idSpaceA}, tok.Encode(" a", tokenizer.Options{}))
	require.Equal(t, " a", tok.Decode([]int32{idSpaceA}), "no space was prefixed, so none is removed")
}

// A token with an inner space joins words, so they can't be merged apart.
func TestSPMInnerSpace(t *testing.T) {
	tok := build(t, spmMetadata(append(small(), token{"a▁", -1, normal}, token{"a▁a", -0.5, normal})...))
	require.Equal(t, []int32{idSpace, idTag + 2}, tok.Encode("a a", tokenizer.Options{}))
	require.Equal(t, "a a", tok.Decode([]int32{idSpace, idTag + 2}))
}

func TestSPMWithoutBytes(t *testing.T) {
	m := spmMetadata()
	setTokens(m, []token{{"<unk>", 0, unknown}, {"a", 0, normal}, {"▁", 0, normal}})
	tok := build(t, m)
	require.Equal(t, []int32{2, 1, 0, 1}, tok.Encode("aéa", tokenizer.Options{}), "one unknown token a character")
	setTokens(m, []token{{"c", 0, normal}, {"a", 0, normal}, {"▁", 0, normal}})
	require.Equal(t, []int32{2, 1, 1}, build(t, m).Encode("aéa", tokenizer.Options{}), "nothing to write it with")
}

// Phi-3's special tokens swallow the white space after them.
func TestPhi3(t *testing.T) {
	m := spmMetadata(small()...)
	text := "<tag> \na<s> a"
	opt := tokenizer.Options{ParseSpecial: true}
	require.Equal(t, []int32{idTag, idSpace, idSpace, byteID('\n'), idA, 1, idSpace, idSpaceA}, build(t, m).Encode(text, opt))
	m.Set("general.name", "Phi-3 mini")
	require.Equal(t, []int32{idTag, idSpaceA, 1, idSpace, idSpaceA}, build(t, m).Encode(text, opt))
}

func TestSpecialTokens(t *testing.T) {
	tok := build(t, spmMetadata(
		token{"x", 0, userDefined}, token{"xy", 0, userDefined}, token{"yzw", 0, userDefined}, token{"  ", 0, userDefined}))
	const x, xy, yzw, spaces = firstID, firstID + 1, firstID + 2, firstID + 3
	underscore := func(ids ...int32) []int32 { return append([]int32{byteID(0xe2), byteID(0x96), byteID(0x81)}, ids...) }
	for _, tc := range []struct {
		name, text string
		want       []int32
	}{
		{"longest of two at one place", "xy", []int32{xy}},
		{"longer one to the right wins", "xyzw", []int32{x, yzw}},
		{"repeated", "xxxyx", []int32{x, x, xy, x}},
		{"runs from the left", "     ", append([]int32{spaces, spaces}, underscore(underscore()...)...)},
		{"at the end", "bx", append(underscore(byteID('b')), x)},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, tok.Encode(tc.text, tokenizer.Options{})) })
	}
}

// A run of one character is the worst case for merging.
func TestSPMLongRun(t *testing.T) {
	tok := build(t, spmMetadata(small()...))
	ids := tok.Encode("c"+strings.Repeat("a", 1<<18), tokenizer.Options{})
	require.Len(t, ids, 2+1<<17)
	require.Equal(t, int32(idAA), ids[1<<17])
}
