package tokenizer_test

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/tokenizer"
)

// Encoding never panics; decoding gives the text back, also one token at a
// time, in whole characters.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"", " a", "ab<tag>  a", "</s><s>", "é日🙂", "\xff\xe2\x96", "x<|eot_id|>\n\n 123", "it's  A"} {
		f.Add(s)
	}
	merges, tokens := bpeTokens()
	toks := map[string]*tokenizer.Tokenizer{
		"spm":  build(f, spmMetadata(small()...)),
		"demo": demo(),
		"bpe":  build(f, bpeMetadata("qwen2", merges, tokens...)),
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, tok := range toks {
			for _, opt := range []tokenizer.Options{{}, {AddSpecial: true}, {ParseSpecial: true}} {
				ids := tok.Encode(text, opt)
				for _, id := range ids {
					require.NotEmpty(t, tok.Token(id))
				}
				d := tok.Decoder()
				all := ""
				for _, id := range ids {
					s := d.Next(id)
					require.True(t, utf8.ValidString(s) || !utf8.ValidString(text), name)
					all += s
				}
				require.Equal(t, tok.Decode(ids), all+d.Flush(), name)
			}
			got := tok.Decode(tok.Encode(text, tokenizer.Options{}))
			switch name {
			case "bpe":
				require.Equal(t, text, got)
			default:
				require.Equal(t, spmText(text), spmText(got), name)
			}
		}
	})
}

// spmText is what a SentencePiece vocabulary keeps of a text: it writes spaces
// as ▁, and puts one after a special token.
func spmText(s string) string {
	var b []rune
	for _, r := range s {
		if r != ' ' && r != '▁' {
			b = append(b, r)
		}
	}
	return string(b)
}

// Metadata comes from a file that anyone may have written.
func FuzzNew(f *testing.F) {
	f.Add("llama", "a\nb\nab", "a b\nab c", []byte{2, 3, 6, 1, 4, 5}, 1, "ab c")
	f.Add("gpt2", "a\nĠ\n<0x41>\n\nĠa", "Ġ a", []byte{1, 1, 6, 1, 1}, -1, " a a")
	f.Fuzz(func(t *testing.T, model, tokens, merges string, types []byte, id int, text string) {
		m := &gguf.Metadata{}
		m.Set("tokenizer.ggml.model", model)
		texts := lines(tokens)
		kinds := make([]int32, len(texts))
		scores := make([]float32, len(texts))
		for i := range kinds {
			if len(types) > 0 {
				kinds[i] = int32(int8(types[i%len(types)]))
				scores[i] = float32(kinds[i]) / float32(i+1)
			}
		}
		m.Set("tokenizer.ggml.tokens", texts)
		m.Set("tokenizer.ggml.scores", scores)
		m.Set("tokenizer.ggml.token_type", kinds)
		m.Set("tokenizer.ggml.merges", lines(merges))
		m.Set("tokenizer.ggml.eos_token_id", int64(id))
		m.Set("tokenizer.ggml.unknown_token_id", int64(id))
		tok, err := tokenizer.New(m)
		if err != nil {
			return
		}
		for _, opt := range []tokenizer.Options{{}, {AddSpecial: true, ParseSpecial: true}} {
			ids := tok.Encode(text, opt)
			for _, id := range ids {
				require.True(t, id >= 0 && int(id) < tok.Size())
			}
			require.Equal(t, tok.Decode(ids), stream(tok, ids))
		}
	})
}

func lines(s string) []string {
	out := []string{""}
	for _, r := range s {
		if r == '\n' {
			out = append(out, "")
			continue
		}
		out[len(out)-1] += string(r)
	}
	return out
}
