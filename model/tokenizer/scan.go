package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Pre-tokenizers are published as regular expressions with lookahead and
// backtracking. Here they are scanners written by hand: they are some ten
// times as fast, they cannot backtrack without end, and they keep bytes that
// are not UTF-8. The tests run the expressions and demand the same pieces.

// A splitter cuts text into pieces, in order and without loss; tokens do not
// reach from one piece into another. It makes a function that takes text out
// of one that takes the pieces.
type splitter func(yield func(piece string)) (split func(text string))

// A matchFunc returns the length of the match that text starts with, 0 if
// there is none. text is not empty.
type matchFunc func(text string) int

// find is a splitter that yields the matches of match, from left to right, and
// what is between two matches as one piece.
func find(match matchFunc) splitter {
	return func(yield func(piece string)) func(text string) {
		return func(text string) {
			rest := 0 // start of what is not yielded yet
			for i := 0; i < len(text); {
				n := match(text[i:])
				if n == 0 {
					_, n = utf8.DecodeRuneInString(text[i:])
					i += n
					continue
				}
				if i > rest {
					yield(text[rest:i])
				}
				yield(text[i : i+n])
				i += n
				rest = i
			}
			if rest < len(text) {
				yield(text[rest:])
			}
		}
	}
}

// chain splits by the first splitter, its pieces by the second, and so on.
func chain(splitters ...splitter) splitter {
	return func(yield func(piece string)) func(text string) {
		for _, s := range slices.Backward(splitters) {
			yield = s(yield)
		}
		return yield
	}
}

// A class is a set of characters, as in the [] of an expression.
type class func(r rune) bool

// run returns the length of the characters of c that text starts with.
func (c class) run(text string) int {
	for i, r := range text {
		if !c(r) {
			return i
		}
	}
	return len(text)
}

// atMost matches c{1,limit}.
func (c class) atMost(limit int) matchFunc {
	return func(text string) int {
		n := 0
		for i, r := range text {
			if n == limit || !c(r) {
				return i
			}
			n++
		}
		return len(text)
	}
}

// after matches lead?c+.
func (c class) after(lead class) matchFunc {
	return func(text string) int {
		if n := c.run(text); n > 0 {
			return n
		}
		r, n := utf8.DecodeRuneInString(text)
		if n == 0 || !lead(r) {
			return 0
		}
		if m := c.run(text[n:]); m > 0 {
			return n + m
		}
		return 0
	}
}

var (
	isLetter = class(unicode.IsLetter) // \p{L}
	isNumber = class(unicode.IsNumber) // \p{N}
	isPunct  = class(unicode.IsPunct)  // \p{P}
	isSpace  = class(unicode.IsSpace)  // \s
)

func isBlank(r rune) bool   { return r == ' ' }
func isNewline(r rune) bool { return r == '\r' || r == '\n' }
func isDigit(r rune) bool   { return '0' <= r && r <= '9' }

// isOther is [^\s\p{L}\p{N}].
func isOther(r rune) bool { return !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r) }

// isWordPart is [\p{L}\p{M}].
func isWordPart(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) }

// isHan is [一-龥ࠀ-一가-퟿], DeepSeek's idea of the scripts of East Asia.
func isHan(r rune) bool { return 0x0800 <= r && r <= 0x9fa5 || 0xac00 <= r && r <= 0xd7ff }

// isKana is [一-龥぀-ゟ゠-ヿ].
func isKana(r rune) bool { return 0x4e00 <= r && r <= 0x9fa5 || 0x3040 <= r && r <= 0x30ff }

// threeDigits matches [0-9][0-9][0-9].
func threeDigits(text string) int {
	if len(text) >= 3 && isDigit(rune(text[0])) && isDigit(rune(text[1])) && isDigit(rune(text[2])) {
		return 3
	}
	return 0
}

// trailingSpace cuts off what \s+$ matches.
func trailingSpace(yield func(piece string)) func(text string) {
	return func(text string) {
		n := len(strings.TrimRightFunc(text, isSpace))
		if n > 0 {
			yield(text[:n])
		}
		if n < len(text) {
			yield(text[n:])
		}
	}
}

// contraction matches 's|'t|'re|'ve|'m|'ll|'d, in either case if fold is set.
func contraction(text string, fold bool) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	lower := func(b byte) byte {
		if fold && 'A' <= b && b <= 'Z' {
			return b | 0x20
		}
		return b
	}
	a := lower(text[1])
	switch a {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(text) > 2 {
		b := lower(text[2])
		if a == 'r' && b == 'e' || a == 'v' && b == 'e' || a == 'l' && b == 'l' {
			return 3
		}
	}
	return 0
}

// whitespace matches \s*[\r\n]+|\s+(?!\S)|\s+, and without newlines only
// \s+(?!\S)|\s+: spaces up to the last line end; else all of them if the text
// ends there; else all but one, which belongs to the word that follows.
func whitespace(text string, newlines bool) int {
	end, last, line := 0, 0, 0
	for end < len(text) {
		r, n := utf8.DecodeRuneInString(text[end:])
		if !unicode.IsSpace(r) {
			break
		}
		last = end
		end += n
		if isNewline(r) {
			line = end
		}
	}
	switch {
	case newlines && line > 0:
		return line
	case end < len(text) && last > 0:
		return last
	}
	return end
}

// gpt2 matches 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+,
// which matches at every place.
func gpt2(text string) int {
	if n := contraction(text, false); n > 0 {
		return n
	}
	n := 0
	if text[0] == ' ' {
		n = 1
	}
	for _, c := range []class{isLetter, isNumber, isOther} {
		if m := c.run(text[n:]); m > 0 {
			return n + m
		}
	}
	return whitespace(text, false)
}

// llama3 matches, at every place,
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|
//	 ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func llama3(digits int) matchFunc {
	return words{letter: isLetter, other: isOther, digits: digits, tail: "\r\n"}.match
}

// words is what the expressions of Llama 3 and later models have in common.
type words struct {
	letter class  // what words are made of
	other  class  // what is not letter, number or space
	digits int    // most numbers in a piece
	tail   string // what may follow others
}

func (w words) match(text string) int {
	if n := contraction(text, true); n > 0 {
		return n
	}
	r, size := utf8.DecodeRuneInString(text)
	if w.letter(r) {
		return w.letter.run(text)
	}
	if isNumber(r) {
		return isNumber.atMost(w.digits)(text)
	}
	if !isNewline(r) {
		if n := w.letter.run(text[size:]); n > 0 {
			return size + n
		}
	}
	return w.rest(text)
}

// rest matches  ?[other]+[tail]*|\s*[\r\n]+|\s+(?!\S)|\s+.
func (w words) rest(text string) int {
	if n := w.other.after(isBlank)(text); n > 0 {
		return len(text) - len(strings.TrimLeft(text[n:], w.tail))
	}
	return whitespace(text, true)
}

// cased is what the expressions of GPT-4o and later models have in common, in
// which a word is at most one change from upper to lower case long (U is upper, L
// is lower; contractions as in llama3, if suffix is set):
//
//	[^\r\n\p{L}\p{N}]?U*L+(contraction)?|[^\r\n\p{L}\p{N}]?U+L*(contraction)?|
//	\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[tail]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// It is the models' own; llama.cpp takes every letter beyond ASCII for both
// cases.
type cased struct {
	upper, lower class
	digits       int // most numbers in a piece
	suffix       bool
	tail         string // what may follow others
}

func (c cased) match(text string) int {
	n := 0
	r, size := utf8.DecodeRuneInString(text)
	lead := !isNewline(r) && !isLetter(r) && !isNumber(r)
	if lead {
		n = c.lowerWord(text[size:])
	}
	if n > 0 {
		n += size
	} else if n = c.lowerWord(text); n == 0 && lead {
		if n = c.upper.run(text[size:]); n > 0 {
			n += size
		}
	}
	if n == 0 {
		n = c.upper.run(text)
	}
	switch {
	case n > 0 && c.suffix:
		return n + contraction(text[n:], true)
	case n > 0:
		return n
	case isNumber(r):
		return isNumber.atMost(c.digits)(text)
	}
	return words{other: isOther, tail: c.tail}.rest(text)
}

// lowerWord matches U*L+. U* takes all it can, and gives back characters that
// are in L too only if nothing of L is left for L+.
func (c cased) lowerWord(text string) int {
	last := 0 // end of the last character of U* that is in L too
	for i, r := range text {
		if !c.upper(r) {
			if n := c.lower.run(text[i:]); n > 0 {
				return i + n
			}
			return last
		}
		if c.lower(r) {
			last = i + utf8.RuneLen(r)
		}
	}
	return last
}

// isUpper is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and isLower [\p{Ll}\p{Lm}\p{Lo}\p{M}]:
// letters without case and marks are both.
var (
	isUpper = class(func(r rune) bool {
		return unicode.IsUpper(r) || unicode.IsTitle(r) || unicode.In(r, unicode.Lm, unicode.Lo, unicode.M)
	})
	isLower = class(func(r rune) bool {
		return unicode.IsLower(r) || unicode.In(r, unicode.Lm, unicode.Lo, unicode.M)
	})
)

// kimi matches [\p{Han}]+, and elsewhere what cased does with words that have
// nothing of that.
func kimi(text string) int {
	if n := isIdeograph.run(text); n > 0 {
		return n
	}
	return cased{
		upper:  func(r rune) bool { return isUpper(r) && !isIdeograph(r) },
		lower:  func(r rune) bool { return isLower(r) && !isIdeograph(r) },
		digits: 3, suffix: true, tail: "\r\n",
	}.match(text)
}

// isIdeograph is \p{Han}.
var isIdeograph = class(func(r rune) bool { return unicode.Is(unicode.Han, r) })

// deepseek3 matches
//
//	[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//	 ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func deepseek3(text string) int {
	isMark := func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }
	isASCII := class(func(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' })
	r, size := utf8.DecodeRuneInString(text)
	if r < utf8.RuneSelf && isMark(r) {
		if n := isASCII.run(text[1:]); n > 0 {
			return 1 + n
		}
	}
	if n := class(isWordPart).run(text); n > 0 {
		return n
	}
	if !isNewline(r) && !isMark(r) {
		if n := class(isWordPart).run(text[size:]); n > 0 {
			return size + n
		}
	}
	return words{other: isMark, tail: "\r\n"}.rest(text)
}

// isCased is the class of letters with case that DeepSeek LLM's expression
// lists: \p{Lu}, \p{Ll} and \p{Lt} with some gaps.
func isCased(r rune) bool { return unicode.Is(casedLetters, r) }

var casedLetters = rangeTable(
	'A', 'Z', 'a', 'z', 0xb5, 0xb5, 0xc0, 0xd6, 0xd8, 0xf6, 0xf8, 0x1ba, 0x1bc, 0x1bf, 0x1c4, 0x293, 0x295, 0x2af,
	0x370, 0x373, 0x376, 0x377, 0x37b, 0x37d, 0x37f, 0x37f, 0x386, 0x386, 0x388, 0x38a, 0x38c, 0x38c, 0x38e, 0x3a1,
	0x3a3, 0x3f5, 0x3f7, 0x481, 0x48a, 0x52f, 0x531, 0x556, 0x10a0, 0x10c5, 0x13a0, 0x13f5, 0x13f8, 0x13fd,
	0x1c90, 0x1cba, 0x1cbd, 0x1cbf, 0x1d00, 0x1d2b, 0x1d6b, 0x1d77, 0x1d79, 0x1d9a, 0x1e00, 0x1f15, 0x1f18, 0x1f1d,
	0x1f20, 0x1f45, 0x1f48, 0x1f4d, 0x1f50, 0x1f57, 0x1f59, 0x1f59, 0x1f5b, 0x1f5b, 0x1f5d, 0x1f5d, 0x1f5f, 0x1f7d,
	0x1f80, 0x1fb4, 0x1fb6, 0x1fbc, 0x1fbe, 0x1fbe, 0x1fc2, 0x1fc4, 0x1fc6, 0x1fcc, 0x1fd0, 0x1fd3, 0x1fd6, 0x1fdb,
	0x1fe0, 0x1fec, 0x1ff2, 0x1ff4, 0x1ff6, 0x1ffc, 0x2102, 0x2102, 0x2107, 0x2107, 0x210a, 0x2113, 0x2115, 0x2115,
	0x2119, 0x211d, 0x2124, 0x2124, 0x2126, 0x2126, 0x2128, 0x2128, 0x212a, 0x212d, 0x212f, 0x2134, 0x2139, 0x2139,
	0x213c, 0x213f, 0x2145, 0x2149, 0x214e, 0x214e, 0x2183, 0x2184, 0x2c00, 0x2c7b, 0x2c7e, 0x2ce4, 0x2ceb, 0x2cee,
	0x2cf2, 0x2cf3, 0xa640, 0xa66d, 0xa680, 0xa69b, 0xa722, 0xa76f, 0xa771, 0xa787, 0xa78b, 0xa78e, 0xab70, 0xabbf,
	0xfb00, 0xfb06, 0xfb13, 0xfb17, 0xff21, 0xff3a, 0xff41, 0xff5a, 0x10400, 0x1044f, 0x104b0, 0x104d3,
	0x104d8, 0x104fb, 0x10c80, 0x10cb2, 0x10cc0, 0x10cf2, 0x118a0, 0x118df, 0x1e900, 0x1e943,
)

// rangeTable makes a table of pairs of first and last characters, ascending.
func rangeTable(pairs ...rune) *unicode.RangeTable {
	t := &unicode.RangeTable{}
	for i := 0; i < len(pairs); i += 2 {
		lo, hi := pairs[i], pairs[i+1]
		if hi <= 0xffff {
			t.R16 = append(t.R16, unicode.Range16{Lo: uint16(lo), Hi: uint16(hi), Stride: 1})
		} else {
			t.R32 = append(t.R32, unicode.Range32{Lo: uint32(lo), Hi: uint32(hi), Stride: 1})
		}
		if hi <= unicode.MaxLatin1 {
			t.LatinOffset++
		}
	}
	return t
}

// isPrinted is [!-/:-~！-／：-～‘-‟　-。]; letters have been taken out before.
func isPrinted(r rune) bool {
	return '!' <= r && r <= '/' || ':' <= r && r <= '~' || '！' <= r && r <= '／' || '：' <= r && r <= '～' ||
		0x2018 <= r && r <= 0x201f || 0x3000 <= r && r <= 0x3002
}

// isBloom is [^(\s|.,!?…。，、।۔،)]: BLOOM's authors meant a group by the ().
func isBloom(r rune) bool {
	return !unicode.IsSpace(r) && !strings.ContainsRune("(|.,!?…。，、।۔،)", r)
}
