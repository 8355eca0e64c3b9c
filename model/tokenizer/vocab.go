package tokenizer

import (
	"fmt"
	"math"
	"strconv"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// tokenType is what a token is for, numbered as tokenizer.ggml.token_type
// does.
type tokenType int32

const (
	normal      tokenType = 1
	unknown     tokenType = 2
	control     tokenType = 3 // matched in text only if the caller asks
	userDefined tokenType = 4 // always matched in text, before anything else
	unused      tokenType = 5
	byteToken   tokenType = 6 // <0xNN>
)

// none is the id of a token that the vocabulary does not have.
const none int32 = -1

// A vocab is what the two kinds of vocabulary have in common: the tokens, and
// which of them play a part.
type vocab struct {
	texts  []string // shared with the metadata
	types  []tokenType
	scores []float32 // nil if the file has none

	bos, eos, unk  int32
	addBOS, addEOS bool
}

// readVocab reads the token table. Ids that the file does not name are none.
func readVocab(m *gguf.Metadata) (*vocab, error) {
	const tokens = "tokenizer.ggml.tokens"
	v := &vocab{}
	var err error
	if v.texts, _, err = gguf.Array[string](m, tokens); err != nil {
		return nil, err
	}
	if len(v.texts) == 0 {
		return nil, formatError(tokens, "no tokens")
	}
	if err := v.readScores(m); err != nil {
		return nil, err
	}
	if err := v.readTypes(m); err != nil {
		return nil, err
	}
	for id, t := range v.types {
		if _, ok := parseByte(v.texts[id]); t == byteToken && !ok {
			return nil, formatError(tokens, "token %d: byte token %.20q is not of the form <0xNN>", id, v.texts[id])
		}
	}
	for _, k := range []struct {
		key string
		id  *int32
	}{
		{"tokenizer.ggml.bos_token_id", &v.bos},
		{"tokenizer.ggml.eos_token_id", &v.eos},
		{"tokenizer.ggml.unknown_token_id", &v.unk},
	} {
		if *k.id, err = v.readID(m, k.key); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (v *vocab) readScores(m *gguf.Metadata) error {
	const key = "tokenizer.ggml.scores"
	scores, ok, err := gguf.Array[float32](m, key)
	if err != nil || !ok {
		return err
	}
	if len(scores) != len(v.texts) {
		return formatError(key, "%d scores for %d tokens", len(scores), len(v.texts))
	}
	for id, s := range scores {
		if math.IsNaN(float64(s)) {
			return formatError(key, "token %d: score is NaN", id)
		}
	}
	v.scores = scores
	return nil
}

// readTypes leaves every token normal if the file has no types.
func (v *vocab) readTypes(m *gguf.Metadata) error {
	const key = "tokenizer.ggml.token_type"
	types, ok, err := gguf.Array[int32](m, key)
	if err != nil {
		return err
	}
	if ok && len(types) != len(v.texts) {
		return formatError(key, "%d types for %d tokens", len(types), len(v.texts))
	}
	v.types = make([]tokenType, len(v.texts))
	for id := range v.types {
		v.types[id] = normal
		if ok {
			v.types[id] = tokenType(types[id])
		}
	}
	return nil
}

// readID reads the id of a token. Some converters write -1, also as an
// unsigned number, for a token that the model lacks.
func (v *vocab) readID(m *gguf.Metadata, key string) (int32, error) {
	id, ok, err := gguf.Get[int](m, key)
	if err != nil {
		return none, err
	}
	if !ok || id == -1 || int64(id) == math.MaxUint32 {
		return none, nil
	}
	if !v.has(int32(id)) || int(int32(id)) != id {
		return none, formatError(key, "id %d of %d tokens", id, len(v.texts))
	}
	return int32(id), nil
}

func (v *vocab) has(id int32) bool { return id >= 0 && int(id) < len(v.texts) }

// ids maps texts to tokens, except those that skip rejects. An empty token
// matches nothing; of tokens that read the same the first counts.
func (v *vocab) ids(skip func(tokenType) bool) map[string]int32 {
	n := 0
	for _, t := range v.types {
		if !skip(t) {
			n++
		}
	}
	ids := make(map[string]int32, n)
	for id, text := range v.texts {
		if text == "" || skip(v.types[id]) {
			continue
		}
		if _, dup := ids[text]; !dup {
			ids[text] = int32(id)
		}
	}
	return ids
}

// parseByte reads the name of a byte token, <0xNN>.
func parseByte(text string) (byte, bool) {
	if len(text) != len("<0xNN>") || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(text[3:5], 16, 8)
	return byte(b), err == nil
}

func formatError(key, format string, args ...any) error {
	return fmt.Errorf("%w: metadata %q: %s", gguf.ErrFormat, key, fmt.Sprintf(format, args...))
}
