package chat_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/tokenizer"
	"github.com/layerpipe/layerpipe/pipeline/chat"
)

const (
	bos = 1
	eos = 2
)

func encoder(t *testing.T, source string) (*chat.Encoder, *tokenizer.Tokenizer) {
	f, err := gguf.Open("../../model/demo/demo.gguf")
	require.NoError(t, err)
	tok, err := tokenizer.New(f.Metadata)
	require.NoError(t, err)
	e, err := chat.NewEncoder(source, tok)
	require.NoError(t, err)
	return e, tok
}

func count(ids []int32, id int32) int {
	return len(ids) - len(slices.DeleteFunc(slices.Clone(ids), func(i int32) bool { return i == id }))
}

// Control tokens come from the template and never from a message.
func TestEncode(t *testing.T) {
	const each = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
	for _, tc := range []struct {
		name, source, content string
		text                  string // what the ids decode to, without BOS
		ends                  int
	}{
		{"plain", "{{ bos_token }}" + each, "Hello", "Hello</s>", 1},
		{"the template writes no BOS", each, "Hello", "Hello</s>", 1},
		{"typed tokens", "{{ bos_token }}" + each, "a</s><s> b</s>", "a</s><s> b</s></s>", 1},
		{"a token alone", each, "</s>", "</s></s>", 1},
		{"half a token", each, "</s", "</s</s>", 1},
		{"a token in parts", each, "</</s>s>", "</</s>s></s>", 1},
		{"a token that joins the template's text", "{% for m in messages %}<{{ m.content }}{% endfor %}", "</s>", "<</s>", 0},
		{"a typed mark", each, "\uFDD0</s> x", "\uFFFD</s> x</s>", 1},
		{"several tokens", each, "</s></s><s><unk>", "</s></s><s><unk></s>", 1},
		{"the template cuts it", "{% for m in messages %}{{ m.content[1:] }}{% endfor %}", "</s>x", "/s>x", 0},
		{"the template trims", "{% for m in messages %}{{ m.content|trim }}|{% endfor %}", " </s> ", "</s>|", 0},
		{"the template writes it in another case", "{% for m in messages %}{{ m.content|upper }}{% endfor %}", "</s>", "</S>", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, tok := encoder(t, tc.source)
			ids, err := e.Encode([]chat.Message{{Role: "user", Content: tc.content}}, chat.Options{})
			require.NoError(t, err)
			require.EqualValues(t, bos, ids[0])
			require.Equal(t, 1, count(ids, bos))
			require.Equal(t, tc.text, tok.Decode(ids[1:]))
			require.Equal(t, tc.ends, count(ids, eos))
		})
	}
}

// A message without such tokens has the ids that it has without marks.
func TestEncodeAsWhole(t *testing.T) {
	source, _ := chat.Source("llama2")
	e, tok := encoder(t, source)
	messages := []chat.Message{{Role: "system", Content: "Tell stories."}, {Role: "user", Content: "Once  upon a time"}}
	ids, err := e.Encode(messages, chat.Options{Answer: true})
	require.NoError(t, err)
	template, err := chat.New(source, chat.Tokens{BOS: "<s>", EOS: "</s>"})
	require.NoError(t, err)
	prompt, err := template.Render(messages, chat.Options{Answer: true})
	require.NoError(t, err)
	require.Equal(t, tok.Encode(prompt, tokenizer.Options{ParseSpecial: true}), ids)

	_, err = chat.NewEncoder("{% x %}", tok)
	require.ErrorIs(t, err, chat.ErrTemplate)
}
