package tokenizer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A preTokenizer says how a byte-level vocabulary cuts text before it merges.
type preTokenizer struct {
	split splitter
	// whole takes a piece that is a token for that token, whatever the merges
	// would make of it.
	whole  bool
	addBOS bool // unless the file says otherwise
}

// preTokenizers maps tokenizer.ggml.pre to what it stands for. Names, and which
// of them are the same, are llama.cpp's (llama-vocab.cpp); the expressions are
// those of the models' tokenizer.json. Names that only encoders use, and rare
// ones that need scanners of their own, are left out and refused.
var preTokenizers = func() map[string]preTokenizer {
	all := map[string]preTokenizer{}
	add := func(p preTokenizer, names ...string) {
		for _, name := range names {
			all[name] = p
		}
	}
	words := find(gpt2)
	// What llama.cpp does for files from before the key was written.
	add(preTokenizer{split: chain(
		find(class(func(r rune) bool { return isPunct(r) || strings.ContainsRune("$+<=>^~|", r) }).run),
		words, find(isNumber.run), find(threeDigits))},
		"default", "")
	add(preTokenizer{split: words},
		"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4", "gigachat", "a.x-4.0", "mellum")
	add(preTokenizer{split: chain(find(isNumber.atMost(1)), words)},
		"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2")
	add(preTokenizer{split: chain(
		find(class(func(r rune) bool { return isPunct(r) || strings.ContainsRune("$+<=>^~|`", r) }).run),
		words, find(threeDigits))},
		"falcon")

	add(preTokenizer{split: find(llama3(3)), whole: true, addBOS: true},
		"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2")
	add(preTokenizer{split: find(llama3(3))},
		"dbrx", "smaug-bpe", "chatglm-bpe", "glm4")
	add(preTokenizer{split: find(llama3(1))},
		"qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2", "kormo",
		"bailingmoe", "bailingmoe2", "llada-moe")
	add(preTokenizer{split: find(qwen35.match)}, "qwen35")
	add(preTokenizer{split: find(seedCoder.match)}, "seed-coder")
	add(preTokenizer{split: find(cased{isUpper, isLower, 1, false, "\r\n/"}.match), whole: true, addBOS: true}, "tekken")
	add(preTokenizer{split: find(kimi)}, "kimi-k2")
	add(preTokenizer{split: find(cased{isUpper, isLower, 3, true, "\r\n/"}.match)}, "gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie")

	newlines := find(class(isNewline).atMost(1))
	add(preTokenizer{split: chain(newlines,
		find(class(isCased).after(isSpace)), find(class(isPrinted).after(isSpace)), trailingSpace,
		find(class(isHan).run), find(isNumber.run))},
		"deepseek-llm")
	add(preTokenizer{split: chain(newlines,
		find(isLetter.after(isSpace)), find(isPunct.after(isSpace)),
		find(class(isHan).run), find(isNumber.atMost(1)))},
		"deepseek-coder")
	add(preTokenizer{split: chain(find(isNumber.atMost(3)), find(class(isKana).run), find(deepseek3))},
		"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4")

	add(preTokenizer{split: find(class(isBloom).after(isBlank))},
		"bloom", "gpt3-finnish", "poro-chat")
	add(preTokenizer{split: chain(find(class(isBloom).after(isBlank)), find(isNumber.atMost(1)))},
		"viking")
	return all
}()

// qwen35 has words with combining marks: [\p{L}\p{M}]+ for \p{L}+, and others
// without them.
var qwen35 = words{
	letter: isWordPart,
	other:  func(r rune) bool { return isOther(r) && !isWordPart(r) },
	digits: 1,
	tail:   "\r\n",
}

// seedCoder has line ends apart from what is before them.
var seedCoder = words{letter: isLetter, other: isOther, digits: 1}

func findPreTokenizer(name string) (preTokenizer, error) {
	p, ok := preTokenizers[name]
	if !ok {
		known := slices.Sorted(maps.Keys(preTokenizers))[1:] // without ""
		return p, fmt.Errorf("%w: metadata %q: %q (supported: %s)", ErrUnsupported, keyPre, name, strings.Join(known, ", "))
	}
	return p, nil
}
