package tokenizer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// A span is a special token found in a text: text[start:end] is replaced by
// it.
type span struct {
	start, end int
	id         int32
}

// A matcher finds a set of special tokens in a text. Longer tokens are cut out
// of the whole text before shorter ones, and each from left to right, as
// llama.cpp does; that is not the same as the longest match at the leftmost
// place.
type matcher struct {
	ids     map[string]int32
	lengths []int         // the distinct lengths of tokens in bytes, longest first
	starts  [1 << 13]byte // bit set: the first two bytes of a token, little-endian
	trim    func(text string) bool
}

// newMatcher makes a matcher for the tokens of the given types. trim selects
// tokens that swallow the white space after them.
func newMatcher(v *vocab, trim func(text string) bool, types ...tokenType) matcher {
	m := matcher{trim: trim}
	m.ids = v.ids(func(t tokenType) bool { return !slices.Contains(types, t) })
	for text := range m.ids {
		m.lengths = append(m.lengths, len(text))
		if len(text) > 1 {
			m.setStart(text[0], text[1])
			continue
		}
		for b := range 256 {
			m.setStart(text[0], byte(b))
		}
	}
	slices.SortFunc(m.lengths, func(a, b int) int { return b - a })
	m.lengths = slices.Compact(m.lengths)
	return m
}

func (m *matcher) setStart(b0, b1 byte) { m.starts[int(b1)<<5|int(b0)>>3] |= 1 << (b0 & 7) }

func (m *matcher) isStart(b0, b1 byte) bool { return m.starts[int(b1)<<5|int(b0)>>3]>>(b0&7)&1 != 0 }

// candidates returns the offsets at which a token may start.
func (m *matcher) candidates(text string) []int {
	if len(m.ids) == 0 {
		return nil
	}
	var at []int
	for i := range len(text) - 1 {
		if m.isStart(text[i], text[i+1]) {
			at = append(at, i)
		}
	}
	return append(at, max(len(text)-1, 0)) // a token of one byte may be the last
}

// find returns the special tokens in text, in order, not overlapping.
func (m *matcher) find(text string) []span {
	candidates := m.candidates(text)
	var found []span
	var taken []bool // bytes of text that belong to a span
	for _, n := range m.lengths {
		for _, i := range candidates {
			if i+n > len(text) {
				break
			}
			// The spans so far are not shorter than n, so one that overlaps
			// covers the first or the last byte.
			if taken != nil && (taken[i] || taken[i+n-1]) {
				continue
			}
			id, ok := m.ids[text[i:i+n]]
			if !ok {
				continue
			}
			if taken == nil {
				taken = make([]bool, len(text))
			}
			end := i + n
			if m.trim(text[i:end]) {
				for end < len(text) && !taken[end] && strings.IndexByte(" \t\n\v\f\r", text[end]) >= 0 {
					end++
				}
			}
			for j := i; j < end; j++ {
				taken[j] = true
			}
			found = append(found, span{i, end, id})
		}
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	return found
}

// specialsTrim returns which special tokens swallow the white space after
// them. GGUF has no key for it: llama.cpp knows Phi-3 by its name, and so must
// we (in Phi-3's own tokenizer these tokens have rstrip set).
func specialsTrim(m *gguf.Metadata) (func(text string) bool, error) {
	name, err := gguf.GetOr(m, "general.name", "")
	if err != nil {
		return nil, err
	}
	name = strings.ToLower(name)
	if !strings.Contains(name, "phi-3") && !strings.Contains(name, "phi3") {
		return func(string) bool { return false }, nil
	}
	return func(text string) bool {
		return text != "<unk>" && text != "<s>" && text != "<|endoftext|>"
	}, nil
}
