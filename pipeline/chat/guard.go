package chat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The names of our functions in a guarded template. A template has no names
// that begin with two underscores.
const (
	fnText  = "__text"  // (number): writes a text
	fnAt    = "__at"    // (line): a tag begins
	fnWrite = "__write" // (value): writes a value
	fnKeep  = "__keep"  // (value, namespace): checks a value that gets a name
	fnLoop  = "__loop"  // (): a round of a loop begins
	fnEnter = "__enter" // (values...): a macro begins
	fnLeave = "__leave" // (): it ends
	fnCheck = "__check" // filter: checks a value
	prefix  = "__own_"  // of filters that replace those of the evaluator
)

// ownFilters are filters of ours instead of the evaluator's.
var ownFilters = []string{
	"tojson", "join", "replace", "indent", "string", "map", "select", "reject", "selectattr", "rejectattr",
}

// ownMethods are methods that become filters of ours: x.join(y) is
// x|__own_method_join(y).
var ownMethods = []string{"append", "insert", "update", "replace", "format", "join"}

// guard writes the template that is given to the evaluator. Nothing in it
// depends on the evaluator's handling of white space: all text is in calls, and
// the words of a tag have spaces between them.
func guard(tags []tag) (string, error) {
	g := &guarder{}
	for _, t := range tags {
		if err := g.tag(t); err != nil {
			return "", fmt.Errorf("line %d: %w", t.line, err)
		}
	}
	return g.out.String(), nil
}

type guarder struct {
	out      strings.Builder
	newlines int // in out
}

func (g *guarder) call(name string, args ...string) {
	fmt.Fprintf(&g.out, "{{ %s(%s) }}", name, strings.Join(args, ", "))
}

func (g *guarder) statement(words ...string) {
	g.out.WriteString("{% " + strings.Join(words, " ") + " %}")
}

func (g *guarder) tag(t tag) error {
	if t.kind == tagText {
		g.call(fnText, strconv.Itoa(t.text))
		return nil
	}
	for _, w := range t.tokens {
		if w.kind == tokenName && strings.HasPrefix(w.text, "__") {
			return fmt.Errorf("the name %q is reserved", w.text)
		}
	}
	if len(t.tokens) == 0 {
		return fmt.Errorf("an empty tag")
	}
	// The evaluator names the lines of what it reads: they become the same.
	g.call(strings.Repeat("\n", t.line-1-g.newlines)+fnAt, strconv.Itoa(t.line))
	g.newlines = t.line - 1
	if t.kind == tagExpression {
		e, err := expression(t.tokens)
		if err != nil {
			return err
		}
		g.call(fnWrite, e)
		return nil
	}
	rest := t.tokens[1:]
	switch keyword := t.tokens[0].text; keyword {
	case "if", "elif":
		e, err := expression(rest)
		if err != nil {
			return err
		}
		g.statement(keyword, e)
	case "else", "endif", "endfor", "endset", "break", "continue", "generation", "endgeneration":
		if len(rest) > 0 {
			return fmt.Errorf("unexpected %q behind %s", rest[0].text, keyword)
		}
		g.statement(keyword)
	case "for":
		return g.loop(rest)
	case "set":
		return g.set(rest)
	case "macro":
		return g.macro(rest)
	case "endmacro":
		g.call(fnLeave)
		g.statement(keyword)
	default:
		return fmt.Errorf("{%% %s %%} is not supported", keyword)
	}
	return nil
}

func (g *guarder) loop(words []token) error {
	in := slices.IndexFunc(words, func(w token) bool { return w.is("in") })
	if in < 0 {
		return fmt.Errorf("a for without in")
	}
	var names []string
	for i, w := range slices.DeleteFunc(slices.Clone(words[:in]), func(w token) bool { return w.is("(") || w.is(")") }) {
		switch {
		case i%2 == 0 && w.kind == tokenName:
			names = append(names, w.text)
		case i%2 == 1 && w.is(","):
		default:
			return fmt.Errorf("unexpected %q behind for", w.text)
		}
	}
	if len(names) < 1 || len(names) > 2 {
		return fmt.Errorf("a for with %d names", len(names))
	}
	for _, w := range words {
		if w.is("recursive") {
			return fmt.Errorf("a recursive for is not supported")
		}
	}
	list, filter := words[in+1:], ""
	depth := 0
	for i, w := range list {
		switch {
		case w.is("(") || w.is("[") || w.is("{"):
			depth++
		case w.is(")") || w.is("]") || w.is("}"):
			depth--
		case w.is("if") && depth == 0 && filter == "":
			f, err := expression(list[i+1:])
			if err != nil {
				return err
			}
			list, filter = list[:i], " if "+f
		}
	}
	e, err := expression(list)
	if err != nil {
		return err
	}
	g.statement("for", strings.Join(names, ", "), "in", fnKeep+"("+e+")"+filter)
	g.call(fnLoop)
	return nil
}

func (g *guarder) set(words []token) error {
	equals := slices.IndexFunc(words, func(w token) bool { return w.is("=") })
	target := words
	if equals >= 0 {
		target = words[:equals]
	}
	var name, namespace string
	switch {
	case len(target) == 1 && target[0].kind == tokenName:
		name = target[0].text
	case len(target) == 3 && target[0].kind == tokenName && target[1].is(".") && target[2].kind == tokenName && equals >= 0:
		namespace, name = target[0].text, target[2].text
	default:
		return fmt.Errorf("set to what is no name is not supported")
	}
	if equals < 0 {
		g.statement("set", name)
		return nil
	}
	e, err := expression(words[equals+1:])
	if err != nil {
		return err
	}
	if namespace == "" {
		g.statement("set", name, "=", fnKeep+"("+e+")")
	} else {
		g.statement("set", namespace+"."+name, "=", fnKeep+"("+e+", "+namespace+")")
	}
	return nil
}

// macro takes NAME(PARAMETER, PARAMETER=DEFAULT), where the evaluator knows no
// defaults but simple ones.
func (g *guarder) macro(words []token) error {
	if len(words) < 3 || words[0].kind != tokenName || !words[1].is("(") || !words[len(words)-1].is(")") {
		return fmt.Errorf("a macro without name or parameters")
	}
	var names []string
	for part := range split(words[2:len(words)-1], ",") {
		if len(part) == 0 || part[0].kind != tokenName {
			return fmt.Errorf("a parameter without a name")
		}
		names = append(names, part[0].text)
		if len(part) == 1 {
			continue
		}
		value := part[len(part)-1]
		if len(part) != 3 || !part[1].is("=") || value.kind == tokenOther || strings.ContainsAny(value.text, ",=)") {
			return fmt.Errorf("the default of parameter %q is not supported", part[0].text)
		}
	}
	g.statement("macro", words[0].text+"("+plain(words[2:len(words)-1])+")")
	g.call(fnEnter, names...)
	return nil
}

// split yields the parts of words between separators; nothing for no words.
func split(words []token, separator string) func(func([]token) bool) {
	return func(yield func([]token) bool) {
		for len(words) > 0 {
			i := slices.IndexFunc(words, func(w token) bool { return w.is(separator) })
			if i < 0 {
				yield(words)
				return
			}
			if !yield(words[:i]) {
				return
			}
			words = words[i+1:]
		}
	}
}

func plain(words []token) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	return strings.Join(texts, " ")
}

// maxSums bounds the operators of a tag that join strings or lists.
const maxSums = 64

// A bracket is one that is open in an expression.
type bracket struct {
	call   bool // arguments of a function or a filter
	test   bool // arguments of a test, behind which no filter can stand
	index  bool // x[...]
	colons int
	start  int
}

// expression writes an expression for the evaluator. Behind everything that
// stands for a value, and is no part of a longer name, it puts the filter
// [fnCheck], so that no operation gets a value that is too large. (To check what
// is set is not enough: a list may have grown since then.)
func expression(words []token) (string, error) {
	if len(words) == 0 {
		return "", fmt.Errorf("an expression is missing")
	}
	var out []string
	var open []bracket
	var factors []int // depth of the brackets of right factors that have begun
	divides := slices.ContainsFunc(words, func(w token) bool { return w.is("/") || w.is("//") || w.is("%") })
	sums := 0
	for i := 0; i < len(words); i++ {
		w := words[i]
		next := func(texts ...string) bool { return i+1 < len(words) && slices.ContainsFunc(texts, words[i+1].is) }
		check := false
		switch {
		case w.kind == tokenString:
			w.text = strings.ReplaceAll(w.text, "\n", `\n`) // lines are counted
		case w.kind == tokenName:
			check = !isKeyword(w) && !isTest(words[:i+1]) && !next("=", ".", "[", "(")
		case w.kind != tokenOther:
		case w.text == "*" && i > 0 && endsValue(words[i-1]) && !divides:
			// a * b is a|times(b): a filter binds at least as tightly.
			factors = append(factors, len(open))
			out = append(out, "|", prefix+"times", "(")
			continue
		case w.text == "*" || w.text == "**":
			return "", fmt.Errorf("%s here is not supported", w.text)
		case w.text == "%" && i > 0 && words[i-1].kind == tokenString:
			return "", fmt.Errorf("formatting with %% is not supported")
		case w.text == "+" || w.text == "~":
			if sums++; sums > maxSums {
				return "", fmt.Errorf("more than %d sums in an expression", maxSums)
			}
		case w.text == "|":
			if i++; i == len(words) || words[i].kind != tokenName {
				return "", fmt.Errorf("a filter without a name")
			}
			out = append(out, "|")
			w.text = words[i].text
			if slices.Contains(ownFilters, w.text) {
				w.text = prefix + w.text
			}
			check = !next("(")
		case w.text == "." && i+1 < len(words) && slices.Contains(ownMethods, words[i+1].text):
			i++
			if next("(") {
				out = append(out, "|")
				w.text = prefix + "method_" + words[i].text
			} else { // a key of that name: a method cannot get away
				out = append(out, "[", strconv.Quote(words[i].text))
				w.text = "]"
				check = !next(".", "[")
			}
		case w.text == ":":
			if n := len(open); n > 0 && open[n-1].index {
				open[n-1].colons++
			}
		case w.text == "(" || w.text == "[" || w.text == "{":
			b := bracket{start: i, test: w.text == "(" && isTest(words[:i])}
			if i > 0 && endsValue(words[i-1]) {
				b.call, b.index = w.text == "(" && !b.test, w.text == "["
			}
			open = append(open, b)
		case w.text == ")" || w.text == "]" || w.text == "}":
			b := open[len(open)-1] // brackets match: scan saw to it
			open = open[:len(open)-1]
			if b.colons > 1 && plain(words[b.start:i+1]) != "[ : : - 1 ]" {
				return "", fmt.Errorf("a slice with a step is not supported, but for [::-1]")
			}
			check = !b.test && (b.call || !next(".", "[", "("))
		}
		out = append(out, w.text)
		if check {
			out = append(out, "|", fnCheck)
		}
		for n := len(factors); n > 0 && factors[n-1] == len(open) && endsValue(words[i]) && !next(".", "[", "(", "|"); n-- {
			out = append(out, ")", "|", fnCheck)
			factors = factors[:n-1]
		}
	}
	if len(factors) > 0 {
		return "", fmt.Errorf("a factor is missing")
	}
	return strings.Join(out, " "), nil
}

// isKeyword reports whether w stands for no value of its own, or for a constant.
func isKeyword(w token) bool {
	return slices.Contains([]string{
		"and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None", "null",
	}, w.text)
}

// endsValue reports whether a value can end with w, so that a bracket behind it
// is a call or an index.
func endsValue(w token) bool {
	switch w.kind {
	case tokenName:
		return !slices.Contains([]string{"and", "or", "not", "in", "is", "if", "else"}, w.text)
	case tokenOther:
		return w.text == ")" || w.text == "]" || w.text == "}"
	default:
		return true
	}
}

// isTest reports whether the last of words is the name of a test, behind "is" or
// "is not".
func isTest(words []token) bool {
	n := len(words)
	return n >= 2 && words[n-2].is("is") && !words[n-1].is("not") ||
		n >= 3 && words[n-3].is("is") && words[n-2].is("not")
}
