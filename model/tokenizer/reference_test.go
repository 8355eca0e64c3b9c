package tokenizer_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/tokenizer"
)

// References: vocabularies and texts with the ids that llama.cpp gives. They
// are third-party files and not part of this repository.
func referenceDir(t testing.TB) string {
	root := os.Getenv("LAYERPIPE_REFS")
	if root == "" {
		root = filepath.FromSlash("../../../shared/refs")
	}
	dir := filepath.Join(root, "tokenizers")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no reference vocabularies at %s; set LAYERPIPE_REFS", dir)
	}
	return dir
}

// reference opens a reference vocabulary, unpacked if it is compressed.
func reference(t testing.TB, name string) *tokenizer.Tokenizer {
	path := filepath.Join(referenceDir(t), "ggml-vocab-"+name+".gguf")
	if packed, err := os.ReadFile(path + ".gz"); err == nil {
		r, err := gzip.NewReader(bytes.NewReader(packed))
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		path = filepath.Join(t.TempDir(), name+".gguf")
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
	f, err := gguf.Open(path)
	require.NoError(t, err)
	tok, err := tokenizer.New(f.Metadata)
	require.NoError(t, err)
	return tok
}

var vocabularies = []string{"llama-spm", "gpt-2", "llama-bpe", "deepseek-llm", "starcoder"}

// The texts that llama.cpp ships with each vocabulary; their ids come from the
// models' own tokenizers.
func TestOfficialReferences(t *testing.T) {
	for _, name := range vocabularies {
		t.Run(name, func(t *testing.T) {
			tok := reference(t, name)
			path := filepath.Join(referenceDir(t), "ggml-vocab-"+name+".gguf")
			inp, err := os.ReadFile(path + ".inp")
			require.NoError(t, err)
			out, err := os.ReadFile(path + ".out")
			require.NoError(t, err)
			texts := strings.Split(string(inp), "\n__ggml_vocab_test__\n")
			lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			// A separator follows the last text too.
			if texts[len(texts)-1] == "" && len(texts) == len(lines)+1 {
				texts = texts[:len(lines)]
			}
			require.Equal(t, len(texts), len(lines))
			require.Greater(t, len(lines), 40)
			for i, text := range texts {
				want := []int32{}
				for _, f := range strings.Fields(lines[i]) {
					id, err := strconv.Atoi(f)
					require.NoError(t, err)
					want = append(want, int32(id))
				}
				require.Equal(t, want, tok.Encode(text, tokenizer.Options{}), "%q", text)
			}
		})
	}
}

type hardCase struct {
	Text       string  `json:"text"`
	Plain      []int32 `json:"plain"`
	Special    []int32 `json:"special"`
	AddSpecial []int32 `json:"add_special"`

	DetokPlain      *string `json:"detok_plain"`
	DetokPlainHex   string  `json:"detok_plain_hex"`
	DetokSpecial    *string `json:"detok_special"`
	DetokSpecialHex string  `json:"detok_special_hex"`
}

// Texts chosen to be hard: scripts, spaces, the text of control tokens, random
// mixtures. Ids and decoded texts are llama.cpp's.
func TestHardReferences(t *testing.T) {
	for _, name := range vocabularies {
		t.Run(name, func(t *testing.T) {
			tok := reference(t, name)
			data, err := os.ReadFile(filepath.Join(referenceDir(t), "hard-"+name+".json"))
			require.NoError(t, err)
			var ref struct {
				Size  int   `json:"n_vocab"`
				BOS   int32 `json:"bos"`
				EOS   int32 `json:"eos"`
				EOT   int32 `json:"eot"`
				Type  int   `json:"type"`
				Cases []hardCase
			}
			require.NoError(t, json.Unmarshal(data, &ref))
			require.Greater(t, len(ref.Cases), 100)

			require.Equal(t, ref.Size, tok.Size())
			bos, ok := tok.BOS()
			require.True(t, ok)
			require.Equal(t, ref.BOS, bos)
			eos, ok := tok.EOS()
			require.True(t, ok)
			require.Equal(t, ref.EOS, eos)
			require.True(t, tok.IsEnd(ref.EOS))
			require.Equal(t, ref.EOT >= 0, tok.IsEnd(ref.EOT))

			// llama.cpp tidies spaces when it decodes with these vocabularies;
			// Decode does not.
			tidy := func(s string) string { return s }
			if ref.Type == 2 && name != "deepseek-llm" {
				tidy = tidySpaces
			}
			for _, c := range ref.Cases {
				require.Equal(t, c.Plain, tok.Encode(c.Text, tokenizer.Options{}), "plain %q", c.Text)
				require.Equal(t, c.Special, tok.Encode(c.Text, tokenizer.Options{ParseSpecial: true}), "special %q", c.Text)
				require.Equal(t, c.AddSpecial, tok.Encode(c.Text, tokenizer.Options{AddSpecial: true, ParseSpecial: true}), "add special %q", c.Text)
				require.Equal(t, decoded(t, c.DetokPlain, c.DetokPlainHex), tidy(tok.Decode(c.Plain)), "decode plain %q", c.Text)
				require.Equal(t, decoded(t, c.DetokSpecial, c.DetokSpecialHex), tidy(tok.Decode(c.Special)), "decode special %q", c.Text)
				require.Equal(t, tok.Decode(c.AddSpecial), stream(tok, c.AddSpecial), "stream %q", c.Text)
			}
		})
	}
}

func decoded(t *testing.T, text *string, hexBytes string) string {
	if text != nil {
		return *text
	}
	b, err := hex.DecodeString(hexBytes)
	require.NoError(t, err)
	return string(b)
}

// tidySpaces does what llama.cpp's llama_detokenize does last: it takes away
// the space before ? ! . , and before some contractions.
func tidySpaces(s string) string {
	for _, p := range []string{"?", "!", ".", ","} {
		s = strings.ReplaceAll(s, " "+p, p)
	}
	s = strings.ReplaceAll(s, " ' ", "'")
	for _, p := range []string{"'s", "'m", "'re", "'ve"} {
		s = strings.ReplaceAll(s, " "+p, p)
	}
	return s
}

// stream decodes one token at a time.
func stream(tok *tokenizer.Tokenizer, ids []int32) string {
	var b strings.Builder
	d := tok.Decoder()
	for _, id := range ids {
		b.WriteString(d.Next(id))
	}
	return b.String() + d.Flush()
}
