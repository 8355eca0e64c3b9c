package tokenizer_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/tokenizer"
)

func TestDecode(t *testing.T) {
	tok := build(t, spmMetadata(small()...))
	require.Equal(t, "a ab", tok.Decode([]int32{idSpaceA, idSpaceA, idB}), "the first space was prefixed")
	require.Equal(t, "<s> a</s>", tok.Decode([]int32{1, idSpaceA, 2}), "control tokens are written out")
	require.Equal(t, "<tag>é", tok.Decode([]int32{idTag, byteID(0xc3), byteID(0xa9)}))
	require.Equal(t, "ab", tok.Decode([]int32{idA, -1, 1 << 30, idB}), "ids that do not exist")
	require.Equal(t, "", tok.Decode(nil))
}

func TestDecoder(t *testing.T) {
	tok := build(t, spmMetadata(small()...))
	for _, tc := range []struct {
		name  string
		ids   []int32
		want  []string
		flush string
	}{
		{"first space is removed", []int32{idSpaceA, idSpaceA}, []string{"a", " a"}, ""},
		{"character of two bytes", []int32{byteID(0xc3), byteID(0xa9), idA}, []string{"", "é", "a"}, ""},
		{"character of four bytes", []int32{byteID(0xf0), byteID(0x9f), byteID(0x99), byteID(0x82)}, []string{"", "", "", "🙂"}, ""},
		{"text ends within a character", []int32{idA, byteID(0xf0), byteID(0x9f)}, []string{"a", "", ""}, "\xf0\x9f"},
		{"character is broken off", []int32{byteID(0xf0), byteID(0x9f), idA}, []string{"", "", "\xf0\x9fa"}, ""},
		{"character after half of one", []int32{byteID(0xe2), byteID(0xc3), byteID(0xa9)}, []string{"", "\xe2", "é"}, ""},
		{"byte that starts nothing", []int32{byteID(0x80), byteID(0xff)}, []string{"\x80", "\xff"}, ""},
		{"unknown ids", []int32{-1, 1 << 30}, []string{"", ""}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := tok.Decoder()
			for range 2 { // Flush makes it as new
				var got []string
				for _, id := range tc.ids {
					got = append(got, d.Next(id))
				}
				require.Equal(t, tc.want, got)
				require.Equal(t, tc.flush, d.Flush())
			}
		})
	}
}

func TestDemoRoundTrip(t *testing.T) {
	text, err := os.ReadFile("../demo/greedy.txt")
	require.NoError(t, err)
	require.NotEmpty(t, text)
	tok := demo()
	ids := tok.Encode(string(text), tokenizer.Options{})
	require.Less(t, len(ids), len(text)/2)
	require.NotContains(t, ids, int32(0), "unknown token")
	require.Equal(t, string(text), tok.Decode(ids))
	require.Equal(t, string(text), stream(tok, ids))
}
