package chat

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// A tag is a piece of a template: one tag, or the text between two.
type tag struct {
	kind   tagKind
	line   int
	text   int     // number of the text
	tokens []token // of a statement or an expression
}

type tagKind uint8

const (
	tagText tagKind = iota
	tagExpression
	tagStatement
)

// A token is a word of an expression.
type token struct {
	kind tokenKind
	text string // as it is written
}

type tokenKind uint8

const (
	tokenName tokenKind = iota
	tokenNumber
	tokenString
	tokenOther // operators and brackets
)

func (t token) is(text string) bool { return t.kind != tokenString && t.text == text }

// A scanner splits a template as Jinja's lexer does with trim_blocks and
// lstrip_blocks, which chat templates are written for
// (https://jinja.palletsprojects.com/en/stable/templates/#whitespace-control).
type scanner struct {
	source    string
	at        int
	line      int
	lineStart bool // a line begins at the position, as far as lstrip_blocks is concerned
	tags      []tag
	texts     []string
}

func scan(source string) ([]tag, []string, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.ReplaceAll(source, "\r", "\n")
	s := &scanner{source: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for s.at < len(s.source) {
		if err := s.next(); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", s.line, err)
		}
	}
	return s.tags, s.texts, nil
}

// next takes the text up to the next tag, and that tag.
func (s *scanner) next() error {
	begin := s.begin(s.at)
	text := s.source[s.at:begin]
	if begin == len(s.source) {
		s.skip(begin)
		s.addText(text)
		return nil
	}
	kind := s.source[begin+1]
	sign := byte(0)
	after := begin + 2
	if after < len(s.source) && (s.source[after] == '-' || s.source[after] == '+') {
		sign = s.source[after]
		after++
	}
	s.addText(s.stripped(text, sign, kind != '{'))
	s.skip(after)
	switch kind {
	case '#':
		end := strings.Index(s.source[s.at:], "#}")
		if end < 0 {
			return fmt.Errorf("a comment without an end")
		}
		sign := byte(0)
		if end > 0 && strings.IndexByte("-+", s.source[s.at+end-1]) >= 0 {
			sign = s.source[s.at+end-1]
		}
		s.skip(s.at + end + 2)
		s.end(sign, true)
		return nil
	case '{':
		return s.tag(tagExpression, "}}")
	default:
		return s.tag(tagStatement, "%}")
	}
}

// begin finds the next tag from at, or the end.
func (s *scanner) begin(at int) int {
	for ; at+1 < len(s.source); at++ {
		if s.source[at] == '{' && strings.IndexByte("{%#", s.source[at+1]) >= 0 {
			return at
		}
	}
	return len(s.source)
}

// stripped returns what is left of a text before a tag.
func (s *scanner) stripped(text string, sign byte, block bool) string {
	switch {
	case sign == '-':
		return strings.TrimRightFunc(text, unicode.IsSpace)
	case sign == '+' || !block:
		return text
	}
	start := strings.LastIndexByte(text, '\n') + 1
	if (start > 0 || s.lineStart) && strings.TrimSpace(text[start:]) == "" {
		return text[:start]
	}
	return text
}

// end skips what belongs to the end of a tag that has been taken.
func (s *scanner) end(sign byte, block bool) {
	from := s.at
	switch {
	case sign == '-':
		rest := strings.TrimLeftFunc(s.source[s.at:], unicode.IsSpace)
		s.skip(len(s.source) - len(rest))
	case sign == 0 && block && strings.HasPrefix(s.source[s.at:], "\n"):
		s.skip(s.at + 1)
	}
	s.lineStart = s.at > from && s.source[s.at-1] == '\n'
}

func (s *scanner) skip(to int) {
	s.line += strings.Count(s.source[s.at:to], "\n")
	s.at = to
}

func (s *scanner) addText(text string) {
	if text != "" {
		s.tags = append(s.tags, tag{kind: tagText, text: len(s.texts)})
		s.texts = append(s.texts, text)
	}
}

// maxTokens bounds a tag, and with it how deep its evaluation can nest.
const maxTokens = 4096

// tag takes the inside of a tag, up to the end that is not within brackets.
func (s *scanner) tag(kind tagKind, closer string) error {
	t := tag{kind: kind, line: s.line}
	var open []byte
	for {
		rest := strings.TrimLeft(s.source[s.at:], " \t\n\f\v")
		s.skip(len(s.source) - len(rest))
		if rest == "" {
			return fmt.Errorf("a tag without an end, from line %d", t.line)
		}
		if len(open) == 0 {
			sign := byte(0)
			if (rest[0] == '-' || rest[0] == '+') && strings.HasPrefix(rest[1:], closer) {
				sign, rest = rest[0], rest[1:]
			}
			if strings.HasPrefix(rest, closer) {
				s.skip(len(s.source) - len(rest) + 2)
				if kind == tagStatement && len(t.tokens) == 1 && t.tokens[0].is("raw") {
					return s.raw(sign)
				}
				s.end(sign, kind == tagStatement)
				s.tags = append(s.tags, t)
				return nil
			}
		}
		tok, err := nextToken(rest)
		if err != nil {
			return err
		}
		if open, err = nest(open, tok); err != nil {
			return err
		}
		if t.tokens = append(t.tokens, tok); len(t.tokens) > maxTokens {
			return fmt.Errorf("a tag of more than %d words", maxTokens)
		}
		s.skip(s.at + len(tok.text))
	}
}

// raw takes the text up to the end of a raw block.
func (s *scanner) raw(sign byte) error {
	s.end(sign, false)
	for at := s.at; ; at++ {
		i := strings.Index(s.source[at:], "{%")
		if i < 0 {
			return fmt.Errorf("a raw block without an end")
		}
		at += i
		inside, _, _ := strings.Cut(s.source[at+2:], "%}")
		word := strings.TrimSpace(strings.TrimRight(strings.TrimLeft(inside, "-+"), "-+"))
		if word != "endraw" {
			continue
		}
		left, right := signOf(inside, 0), signOf(inside, len(inside)-1)
		s.addText(s.stripped(s.source[s.at:at], left, true))
		s.skip(at + 2 + len(inside) + 2)
		s.end(right, true)
		return nil
	}
}

func signOf(s string, i int) byte {
	if s[i] == '-' || s[i] == '+' {
		return s[i]
	}
	return 0
}

// maxNesting bounds brackets in each other.
const maxNesting = 64

// nest follows the brackets that are open.
func nest(open []byte, t token) ([]byte, error) {
	if t.kind != tokenOther || len(t.text) != 1 {
		return open, nil
	}
	switch c := t.text[0]; c {
	case '(', '[', '{':
		if len(open) == maxNesting {
			return nil, fmt.Errorf("more than %d brackets in each other", maxNesting)
		}
		return append(open, c), nil
	case ')', ']', '}':
		if len(open) == 0 || strings.IndexByte("([{", open[len(open)-1]) != strings.IndexByte(")]}", c) {
			return nil, fmt.Errorf("%q closes nothing", c)
		}
		return open[:len(open)-1], nil
	}
	return open, nil
}

// nextToken returns the token that s, which is not empty, begins with.
func nextToken(s string) (token, error) {
	length := func(in func(byte) bool) int {
		n := 0
		for n < len(s) && in(s[n]) {
			n++
		}
		return n
	}
	switch c := s[0]; {
	case isLetter(c):
		return token{tokenName, s[:length(func(c byte) bool { return isLetter(c) || isDigit(c) })]}, nil
	case isDigit(c):
		n := length(isDigit)
		if n+1 < len(s) && s[n] == '.' && isDigit(s[n+1]) {
			n++
			for n < len(s) && isDigit(s[n]) {
				n++
			}
			if _, err := strconv.ParseFloat(s[:n], 64); err != nil {
				return token{}, fmt.Errorf("number %s", s[:n])
			}
		} else if _, err := strconv.ParseInt(s[:n], 10, 64); err != nil {
			return token{}, fmt.Errorf("number %s", s[:n])
		}
		return token{tokenNumber, s[:n]}, nil
	case c == '"' || c == '\'':
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case c:
				return token{tokenString, s[:i+1]}, nil
			}
		}
		return token{}, fmt.Errorf("a string without an end")
	}
	for _, two := range []string{"==", "!=", "<=", ">=", "//", "**"} {
		if strings.HasPrefix(s, two) {
			return token{tokenOther, two}, nil
		}
	}
	if strings.IndexByte("()[]{}.,:|~+-*/%<>=", s[0]) >= 0 {
		return token{tokenOther, s[:1]}, nil
	}
	return token{}, fmt.Errorf("unexpected %q", []rune(s)[0])
}

func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
