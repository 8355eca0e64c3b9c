package chat

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/layerpipe/layerpipe/model/tokenizer"
)

// An Encoder turns conversations into the tokens of a prompt.
//
// The control tokens of a prompt come from the template alone. What reads like
// one in a message, such as an "<|eot_id|>" that somebody has typed, gets a mark
// behind its first character before the template sees it. When the prompt is
// encoded, the marks are taken out, and no control token is made of what was
// around one, wherever the template cuts the message. (The mark is Unicode's
// noncharacter U+FDD0; one in a message becomes U+FFFD.) Exempt are the tags
// around a model's reasoning, which templates cut out of its answers.
type Encoder struct {
	template *Template
	tok      *tokenizer.Tokenizer
}

const (
	mark        = "\uFDD0"
	replacement = "\uFFFD"
)

// reasoning is what templates look for in the answers of a model.
var reasoning = []string{"<think>", "</think>"}

// NewEncoder compiles a template for the vocabulary of tok. The error is that of
// [New].
func NewEncoder(source string, tok *tokenizer.Tokenizer) (*Encoder, error) {
	var tokens Tokens
	if id, ok := tok.BOS(); ok {
		tokens.BOS = tok.Token(id)
	}
	if id, ok := tok.EOS(); ok {
		tokens.EOS = tok.Token(id)
	}
	t, err := New(source, tokens)
	if err != nil {
		return nil, err
	}
	return &Encoder{template: t, tok: tok}, nil
}

// Encode renders a conversation and returns the tokens of the prompt, with the
// token that starts a text if the vocabulary wants one and the template does not
// write it. The errors are those of [Template.Render].
func (e *Encoder) Encode(messages []Message, o Options) ([]int32, error) {
	marked := slices.Clone(messages)
	for i := range marked {
		marked[i].Content = e.marked(marked[i].Content)
	}
	prompt, err := e.template.Render(marked, o)
	if err != nil {
		return nil, err
	}
	text, literal := unmark(prompt)
	ids := e.tok.Encode(text, tokenizer.Options{ParseSpecial: true, Literal: literal})
	if start := e.tok.Encode("", tokenizer.Options{AddSpecial: true}); len(start) > 0 {
		if bos, ok := e.tok.BOS(); ok && start[0] == bos && (len(ids) == 0 || ids[0] != bos) {
			ids = slices.Insert(ids, 0, bos)
		}
	}
	return ids, nil
}

// marked puts a mark into what reads like a control token.
func (e *Encoder) marked(text string) string {
	text = strings.ReplaceAll(text, mark, replacement)
	var b strings.Builder
	at := 0
	for _, r := range e.tok.Special(text) {
		if slices.Contains(reasoning, text[r.Start:r.End]) {
			continue
		}
		_, first := utf8.DecodeRuneInString(text[r.Start:])
		b.WriteString(text[at:r.Start+first] + mark)
		at = r.Start + first
	}
	return b.String() + text[at:]
}

// unmark takes the marks out of a prompt, and returns the bytes around each.
func unmark(prompt string) (string, []tokenizer.Range) {
	parts := strings.Split(prompt, mark)
	ranges := make([]tokenizer.Range, 0, len(parts)-1)
	at := 0
	for _, p := range parts[:len(parts)-1] {
		at += len(p)
		ranges = append(ranges, tokenizer.Range{Start: at - 1, End: at + 1})
	}
	return strings.Join(parts, ""), ranges
}
