package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
	"github.com/stretchr/testify/require"
)

// The expressions that the scanners stand for, one a stage.
const (
	reGPT2        = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	reContraction = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
	reSpaces      = `|\s*[\r\n]+|\s+(?!\S)|\s+`
	reLlama3      = reContraction + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*` + reSpaces
	reQwen2       = reContraction + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*` + reSpaces
	reUpper       = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	reLower       = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	reHan         = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
	reBloom       = ` ?[^(\s|.,!?…。，、।۔،)]+`
)

var expressions = map[string][]string{
	"default":   {`[\p{P}\$\+<=>\^~\|]+`, reGPT2, `\p{N}+`, `[0-9][0-9][0-9]`},
	"gpt-2":     {reGPT2},
	"starcoder": {`\p{N}`, reGPT2},
	"falcon":    {"[\\p{P}\\$\\+<=>\\^~\\|`]+", reGPT2, `[0-9][0-9][0-9]`},
	"llama-bpe": {reLlama3},
	"qwen2":     {reQwen2},
	"bailingmoe": {`'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*` +
		`|\s*[\r\n]|\s+(?!\S)|\s+`},
	"qwen35":     {reContraction + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*` + reSpaces},
	"seed-coder": {reContraction + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+` + reSpaces},
	"tekken": {`[^\r\n\p{L}\p{N}]?` + reUpper + `*` + reLower + `+|[^\r\n\p{L}\p{N}]?` + reUpper + `+` + reLower + `*` +
		`|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*` + reSpaces},
	"gpt-4o": {`[^\r\n\p{L}\p{N}]?` + reUpper + `*` + reLower + `+` + reContraction + `?|[^\r\n\p{L}\p{N}]?` + reUpper + `+` + reLower + `*` + reContraction + `?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*` + reSpaces},
	// The model's own, with the class that it takes from others written for this
	// engine: [\p{L}&&[^\p{Han}]] is [\p{L}-[\p{Han}]].
	"kimi-k2": {`\p{Han}+|[^\r\n\p{L}\p{N}]?` + notHan(reUpper) + `*` + notHan(reLower) + `+` + reContraction + `?` +
		`|[^\r\n\p{L}\p{N}]?` + notHan(reUpper) + `+` + notHan(reLower) + `*` + reContraction + `?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*` + reSpaces},
	"deepseek-llm": {`[\r\n]`, `\s?[` + reCased() + `]+`, "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
		`\s+\z`, reHan, `\p{N}+`},
	"deepseek-coder": {`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, reHan, `\p{N}`},
	"deepseek-v3": {`\p{N}{1,3}`, "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
		"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" + reSpaces},
	"bloom":  {reBloom},
	"viking": {reBloom, `\p{N}`},
}

func notHan(class string) string { return strings.TrimSuffix(class, "]") + `-[\p{Han}]]` }

// reCased writes casedLetters as the inside of [].
func reCased() string {
	var b strings.Builder
	for _, r := range casedLetters.R16 {
		b.WriteString(string(rune(r.Lo)) + "-" + string(rune(r.Hi)))
	}
	for _, r := range casedLetters.R32 {
		b.WriteString(string(rune(r.Lo)) + "-" + string(rune(r.Hi)))
	}
	return b.String()
}

// splitByExpressions applies each expression to the pieces that the one before
// left. Matches and what is between them are pieces.
func splitByExpressions(t testing.TB, exprs []*regexp2.Regexp, text string) []string {
	pieces := []string{text}
	for _, re := range exprs {
		var next []string
		for _, p := range pieces {
			at := 0
			m, err := re.FindStringMatch(p)
			for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
				i, n := m.ByteRange()
				if i > at {
					next = append(next, p[at:i])
				}
				next = append(next, p[i:i+n])
				at = i + n
			}
			require.NoError(t, err)
			if at < len(p) {
				next = append(next, p[at:])
			}
		}
		pieces = next
	}
	return pieces
}

func compile(exprs []string) []*regexp2.Regexp {
	var compiled []*regexp2.Regexp
	for _, e := range exprs {
		compiled = append(compiled, regexp2.MustCompile(e))
	}
	return compiled
}

func pieces(split splitter, text string) []string {
	var out []string
	split(func(p string) { out = append(out, p) })(text)
	return out
}

// Characters of every class that an expression tells apart.
var scanAlphabet = []rune(" \t\n\r\v\u0085\u00a0\u2003\u2028\u3000" + // spaces
	"sStTdDmMlLrReEvVazAZ'" + // contractions
	"ÀàßŁłΑωЖж" + // two cases
	"ǅᾈ" + // title case
	"ʰªº日ーあ한กא" + // letters without case
	"々〻⼀ㇰ" + // of Han, but for the last: letters and a symbol
	"\u0301\u0e34\u20dd" + // marks: Mn, Me
	"0179٣²½Ⅷ〇" + // numbers: Nd, No, Nl
	".,!?-_/\\()[]{}\"`#%&*@:;$+<=>^~|" + // ASCII punctuation and symbols
	"…。，、।۔،—“‘！～「€©🙂" + // other punctuation and symbols
	"\u200b\u00ad\x00\x7f\ue000\U000e0001\u0378") // format, control, private, unassigned

// randomText favours short runs of the same character.
func randomText(rng *rand.Rand) string {
	var b strings.Builder
	for range rng.IntN(24) {
		r := scanAlphabet[rng.IntN(len(scanAlphabet))]
		if rng.IntN(3) == 0 {
			r = scanAlphabet[rng.IntN(14)] // spaces and contractions decide most
		}
		for range 1 + rng.IntN(4)*rng.IntN(2) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func TestScanners(t *testing.T) {
	distinct := map[string]bool{}
	for name, exprs := range expressions {
		t.Run(name, func(t *testing.T) {
			split, compiled := preTokenizers[name].split, compile(exprs)
			require.NotNil(t, split)
			rng := rand.New(rand.NewPCG(1, 2))
			for range 1000 {
				text := randomText(rng)
				got := pieces(split, text)
				distinct[strings.Join(got, "\x00")] = true
				if text == "" {
					require.Empty(t, got)
					continue
				}
				require.Equal(t, splitByExpressions(t, compiled, text), got, "%q", text)
			}
		})
	}
	require.Greater(t, len(distinct), 1000, "the texts are all alike")
}

// Every splitter is checked against an expression: names share them.
func TestScannersCovered(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var texts []string
	for range 500 {
		texts = append(texts, randomText(rng))
	}
	signature := func(split splitter) string {
		var b strings.Builder
		for _, text := range texts {
			b.WriteString(strings.Join(pieces(split, text), "\x01") + "\x02")
		}
		return b.String()
	}
	checked := map[string]bool{}
	for name := range expressions {
		checked[signature(preTokenizers[name].split)] = true
	}
	for name, p := range preTokenizers {
		require.True(t, checked[signature(p.split)], "%q has a splitter that no expression checks", name)
	}
}

func FuzzScanners(f *testing.F) {
	compiled := map[string][]*regexp2.Regexp{}
	for name, exprs := range expressions {
		compiled[name] = compile(exprs)
	}
	for _, s := range []string{"I'm you'LL  go\n\n 12345x", "HTTPServer日本ÀB'S//\r\n", "a\u0301\u0301 b\t\t", " \u3000\u3000!.a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, exprs := range compiled {
			got := pieces(preTokenizers[name].split, text)
			require.Equal(t, text, strings.Join(got, ""), name)
			if text != "" && utf8.ValidString(text) && len(text) < 1<<10 {
				require.Equal(t, splitByExpressions(t, exprs, text), got, "%s %q", name, text)
			}
		}
	})
}
