package synth_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/compute/kernel"
	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/synth"
	"github.com/layerpipe/layerpipe/model/tokenizer"
	"github.com/layerpipe/layerpipe/pipeline"
)

// tiny is the smallest shape that every type can have.
var tiny = synth.Shape{Layers: 2, Dim: 256, FFN: 512, Heads: 4, KVHeads: 2, Vocab: 500}

// write makes a file and demands that it has the size that was announced.
func write(t *testing.T, c synth.Config) (path string, data []byte) {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, synth.Write(t.Context(), &buf, c, nil))
	size, err := synth.Size(c)
	require.NoError(t, err)
	require.EqualValues(t, size, buf.Len(), c.Type)
	path = filepath.Join(t.TempDir(), "synth.gguf")
	require.NoError(t, os.WriteFile(path, buf.Bytes(), 0o600))
	return path, buf.Bytes()
}

// Every type gives a model that runs, with logits that differ between tokens and
// between sequences.
func TestRuns(t *testing.T) {
	for _, typ := range synth.Types() {
		t.Run(string(typ), func(t *testing.T) {
			path, _ := write(t, synth.Config{Shape: tiny, Type: typ, Seed: 1})
			f, err := gguf.Open(path)
			require.NoError(t, err)
			m, err := model.New(f)
			require.NoError(t, err)
			require.Equal(t, tiny, shapeOf(m))

			e, err := pipeline.Open(path, pipeline.WithContext(16))
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Close()) }()
			last := make([][]float32, 2)
			for i := range last {
				s, err := e.NewSession(0)
				require.NoError(t, err)
				logits, err := s.Feed(t.Context(), []int32{1, 300, int32(400 + i), 5}, 1)
				require.NoError(t, err)
				last[i] = append(last[i], logits...)
				s.Close()
				requireSpread(t, logits, 0.5, 2) // norms keep it near 1
			}
			difference := make([]float32, tiny.Vocab)
			for i := range difference {
				difference[i] = last[0][i] - last[1][i]
			}
			requireSpread(t, difference, 0.1, 3) // an earlier token matters

			var stats pipeline.GenStats
			for _, err := range e.Generate(t.Context(), pipeline.GenConfig{Prompt: "Hello", MaxTokens: 4, Stats: &stats}) {
				require.NoError(t, err)
			}
			require.Positive(t, stats.GeneratedTokens)
		})
	}
}

func shapeOf(m *model.Model) synth.Shape {
	return synth.Shape{Layers: m.Params.Layers, Dim: m.Dim, FFN: m.FFN, Heads: m.Heads, KVHeads: m.KVHeads, Vocab: m.Vocab}
}

// requireSpread demands that the values are finite and their standard deviation
// lies in between.
func requireSpread(t *testing.T, x []float32, least, most float64) {
	t.Helper()
	mean, deviation := moments(x)
	require.Less(t, math.Abs(mean), deviation)
	require.Greater(t, deviation, least)
	require.Less(t, deviation, most)
}

func moments(x []float32) (mean, deviation float64) {
	for _, v := range x {
		mean += float64(v) / float64(len(x))
	}
	for _, v := range x {
		deviation += (float64(v) - mean) * (float64(v) - mean) / float64(len(x))
	}
	return mean, math.Sqrt(deviation)
}

// The values of all matrices have the mean 0 and the standard deviation
// 1/sqrt(row length), also where rows are as long as in the largest models and
// scales so small that they are subnormal.
func TestWeights(t *testing.T) {
	seen := map[gguf.Type]bool{}
	long := synth.Shape{Layers: 1, Dim: 256, FFN: 28672, Heads: 8, KVHeads: 1, Vocab: 500}
	for shape, types := range map[synth.Shape][]synth.Type{tiny: synth.Types(), long: {"Q6_K", "MXFP4"}} {
		for _, typ := range types {
			path, data := write(t, synth.Config{Shape: shape, Type: typ, Seed: 2})
			f, err := gguf.Open(path)
			require.NoError(t, err)
			for _, tensor := range f.Tensors {
				n := tensor.Size / int64(tensor.Type.BlockBytes()) * int64(tensor.Type.BlockValues())
				x := make([]float32, min(n, 1<<14))
				require.NoError(t, dequant.Float32(tensor.Type, x, data[tensor.Offset:][:tensor.Type.RowBytes(len(x))]))
				mean, deviation := moments(x)
				if len(tensor.Dims) == 1 {
					require.Equal(t, []float64{1, 0}, []float64{mean, deviation}, tensor.Name)
					continue
				}
				seen[tensor.Type] = true
				want := 1 / math.Sqrt(float64(tensor.Dims[0]))
				require.InDelta(t, 0, mean, 0.03*want, "%s: %s %v", typ, tensor.Name, tensor.Type)
				require.InEpsilon(t, want, deviation, 0.05, "%s: %s %v", typ, tensor.Name, tensor.Type)
			}
		}
	}
	for _, typ := range dequant.Types() {
		require.Equal(t, kernel.Supported(typ), seen[typ], "%v: what kernels multiply is what can be made", typ)
	}
}

// No two rows of a matrix are alike, and no two matrices.
func TestRowsDiffer(t *testing.T) {
	c := synth.Config{Shape: synth.Shape{Layers: 2, Dim: 256, FFN: 4096, Heads: 4, KVHeads: 4, Vocab: 4096}, Type: "Q8_0"}
	path, data := write(t, c)
	require.Greater(t, len(data), 6<<20, "longer than any buffer")
	f, err := gguf.Open(path)
	require.NoError(t, err)
	seen := map[[32]byte]bool{}
	for _, tensor := range f.Tensors {
		if len(tensor.Dims) == 1 {
			continue
		}
		row := tensor.Type.RowBytes(tensor.Dims[0])
		for off := tensor.Offset; off < tensor.Offset+tensor.Size; off += int64(row) {
			key := [32]byte(data[off+2:])
			require.False(t, seen[key], "%s: byte %d", tensor.Name, off)
			seen[key] = true
		}
	}
}

// The same configuration gives the same bytes on every machine.
func TestDeterministic(t *testing.T) {
	for typ, want := range map[synth.Type]string{
		"F16":    "5e0ea91cb8667a9ea22c35f692b6985fb9cd31e3543a03ae16c6a57eef9d6ec0",
		"Q4_0":   "7d8979f1b1e40c81a792c77d3f718981ff7c0d5f6889bad0c9ac5597bd627c81",
		"Q4_K_M": "2a8b8db8afb2fc46c868b78ad87cae1bcbdf28c78269cbc2cde2fc636b52f2ff",
		"Q2_K":   "eb8c3fdbfdf8af31ac850992e45480592f8424117acf45304cec9cbc39f1593f",
		"IQ3_S":  "ac1a387837cd4c98c5fa19da9762ffeafa0043f8222aee2bf423f7701193d1b4",
		"MXFP4":  "d2a720a2e75b8595c4480892cb99cbabf945e608dc348cdf756d6ba2566fbb80",
	} {
		_, data := write(t, synth.Config{Shape: tiny, Type: typ, Seed: 7})
		sum := sha256.Sum256(data)
		require.Equal(t, want, hex.EncodeToString(sum[:]), typ)
		_, other := write(t, synth.Config{Shape: tiny, Type: typ, Seed: 8})
		require.NotEqual(t, data, other)
	}
}

// Sizes in units of 10^7 bytes of the files of Llama 2 that people download.
func TestSizes(t *testing.T) {
	for name, sizes := range map[string]map[synth.Type]float64{
		"7b": {
			"F16": 1348, "Q8_0": 716, "Q6_K": 553, "Q5_K_M": 478, "Q5_K_S": 465, "Q5_0": 465, "Q4_K_M": 408, "Q4_K_S": 386,
			"Q4_0": 383, "Q3_K_L": 360, "Q3_K_M": 330, "Q3_K_S": 295,
		},
		"13b": {"Q8_0": 1383, "Q6_K": 1068, "Q5_K_M": 923, "Q4_K_M": 787},
		"70b": {"Q5_K_M": 4875, "Q4_K_M": 4142, "Q4_0": 3887},
	} {
		shape, err := synth.ParseShape(name)
		require.NoError(t, err)
		for typ, want := range sizes {
			size, err := synth.Size(synth.Config{Shape: shape, Type: typ})
			require.NoError(t, err)
			require.Equal(t, want, math.Round(float64(size)/1e7), "%s %s", name, typ)
		}
	}
}

// The formats of tensors are those that llama-quantize chose for a model of the
// same shape.
func TestMixes(t *testing.T) {
	dir := os.Getenv("LAYERPIPE_REFS")
	if dir == "" {
		dir = "../../../shared/refs"
	}
	compared := 0
	for _, typ := range synth.Types() {
		ref, err := gguf.Open(filepath.Join(dir, "models", "llama-"+string(typ)+".gguf"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		m, err := model.New(ref)
		require.NoError(t, err)
		path, _ := write(t, synth.Config{Shape: shapeOf(m), Type: typ})
		f, err := gguf.Open(path)
		require.NoError(t, err)
		require.Len(t, f.Tensors, len(ref.Tensors))
		for _, want := range ref.Tensors {
			got, ok := f.Tensor(want.Name)
			require.True(t, ok, want.Name)
			require.Equal(t, want.Type, got.Type, "%s: %s", typ, want.Name)
			require.Equal(t, want.Dims, got.Dims, "%s: %s", typ, want.Name)
		}
		key := "general.file_type"
		want, _ := ref.Metadata.Value(key)
		got, _ := f.Metadata.Value(key)
		require.EqualValues(t, want, got, typ)
		compared++
	}
	if compared == 0 {
		t.Skipf("no reference data in %s; set LAYERPIPE_REFS", dir)
	}
	require.Equal(t, len(synth.Types())-6, compared, "all but MXFP4, the IQ2 ones and IQ3_XXS")
}

// The rows that a better format cannot have get the next best.
func TestShortRows(t *testing.T) {
	c := synth.Config{Shape: synth.Shape{Layers: 8, Dim: 64, FFN: 96, Heads: 8, KVHeads: 2, Vocab: 320}, Type: "IQ4_NL"}
	path, _ := write(t, c)
	f, err := gguf.Open(path)
	require.NoError(t, err)
	for name, want := range map[string]gguf.Type{
		"token_embd.weight": gguf.IQ4_NL, "blk.0.ffn_down.weight": gguf.Q5_1, "blk.1.ffn_down.weight": gguf.IQ4_NL,
		"blk.7.attn_v.weight": gguf.Q5_1, "output.weight": gguf.Q8_0,
	} {
		tensor, ok := f.Tensor(name)
		require.True(t, ok, name)
		require.Equal(t, want, tensor.Type, name)
	}
}

func TestTokenizer(t *testing.T) {
	for _, vocab := range []int{286, 1000, 32000} {
		shape := tiny
		shape.Vocab = vocab
		path, _ := write(t, synth.Config{Shape: shape, Type: "Q2_K"})
		f, err := gguf.Open(path)
		require.NoError(t, err)
		tok, err := tokenizer.New(f.Metadata)
		require.NoError(t, err)
		require.Equal(t, vocab, tok.Size())
		seen := map[string]bool{}
		for id := range int32(vocab) {
			require.False(t, seen[tok.Token(id)], tok.Token(id))
			seen[tok.Token(id)] = true
		}
		for _, text := range []string{"", " ", "Hello, world!", "banana  to\nthe sea", "Ünïcode 日本語 🙂", "\x00\xff\x80", "<s></s>"} {
			ids := tok.Encode(text, tokenizer.Options{})
			require.Equal(t, text, tok.Decode(ids))
			require.Equal(t, append([]int32{1}, ids...), tok.Encode(text, tokenizer.Options{AddSpecial: true}))
		}
	}
}

// Merges reach every word of the vocabulary.
func TestWordsAreReached(t *testing.T) {
	path, _ := write(t, synth.Config{Shape: synth.Shape{Layers: 1, Dim: 256, FFN: 256, Heads: 2, KVHeads: 2, Vocab: 40000}, Type: "Q2_K"})
	f, err := gguf.Open(path)
	require.NoError(t, err)
	tok, err := tokenizer.New(f.Metadata)
	require.NoError(t, err)
	for id := int32(400); id < 40000; id += 17 {
		text := tok.Decode([]int32{1, id})
		if tok.Token(id)[0] >= 'a' { // the start of a text adds a space
			text = "." + tok.Token(id)
		}
		ids := tok.Encode(text, tokenizer.Options{})
		require.Equal(t, id, ids[len(ids)-1], "%q", tok.Token(id))
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "must be one of 1b, 7b, 13b, 70b, or LAYERSxDIMxFFNxHEADSxKVxVOCAB",
		"3b":                      `shape "3b": must be one of`,
		"1x256x256x2x2":           "must be one of",
		"1x256x256x2x2x500x1":     "must be one of",
		"1x256xbigx2x2x500":       `ffn "big" is not a number`,
		"0x256x256x2x2x500":       "layers 0: must be from 1",
		"99999x256x256x2x2x500":   "layers 99999",
		"1x-256x256x2x2x500":      "dim -256",
		"1x256x256x3x3x500":       "dim 256 does not divide among 3 heads",
		"1x6x256x2x2x500":         "an even part",
		"1x256x256x4x3x500":       "4 heads do not divide among 3 kv heads",
		"1x256x256x2x2x100":       "vocab 100: must be from 286",
		"1x256x256x2x2x999999999": "vocab 999999999",
		"1x256x99999999x2x2x500":  "ffn 99999999",
	} {
		_, err := synth.ParseShape(text)
		require.ErrorContains(t, err, want, text)
	}
	_, err := synth.ParseType("Q4_K_X")
	require.ErrorContains(t, err, `type "Q4_K_X": must be one of F32 F16 `)
	require.ErrorContains(t, err, " Q4_K_M ")

	for _, c := range []struct {
		config synth.Config
		want   string
	}{
		{synth.Config{Type: "Q4_0"}, "layers 0"},
		{synth.Config{Shape: tiny}, `type "": must be one of`},
		{synth.Config{Shape: synth.Shape{Layers: 1, Dim: 320, FFN: 512, Heads: 2, KVHeads: 2, Vocab: 500}, Type: "Q4_K_M"},
			"type Q4_K_M: token_embd has rows of 320 elements, not a multiple of 256"},
		{synth.Config{Shape: synth.Shape{Layers: 1, Dim: 256, FFN: 320, Heads: 2, KVHeads: 2, Vocab: 500}, Type: "Q6_K"},
			"type Q6_K: ffn_down has rows of 320 elements, not a multiple of 256"},
		{synth.Config{Shape: synth.Shape{Layers: 1, Dim: 32, FFN: 48, Heads: 2, KVHeads: 2, Vocab: 500}, Type: "Q4_0"},
			"type Q4_0: ffn_down has rows of 48 elements, not a multiple of 32"},
		{synth.Config{Shape: synth.Shape{Layers: 1 << 13, Dim: 1 << 24, FFN: 1 << 24, Heads: 1, KVHeads: 1, Vocab: 286}, Type: "F32"}, "overflow"},
	} {
		var out bytes.Buffer
		require.ErrorContains(t, synth.Write(t.Context(), &out, c.config, nil), c.want)
		require.Zero(t, out.Len())
		_, err := synth.Size(c.config)
		require.ErrorContains(t, err, c.want)
	}
}

func TestParse(t *testing.T) {
	shape, err := synth.ParseShape("22x2048x5632x32x4x32000")
	require.NoError(t, err)
	named, err := synth.ParseShape("1B")
	require.NoError(t, err)
	require.Equal(t, named, shape)
	require.Equal(t, "22x2048x5632x32x4x32000", shape.String())
	typ, err := synth.ParseType("q4_k_m")
	require.NoError(t, err)
	require.Equal(t, synth.Type("Q4_K_M"), typ)
}

// Progress ends at the size of the file, and a context that ends stops the work
// wherever it is.
func TestProgressAndStop(t *testing.T) {
	c := synth.Config{Shape: tiny, Type: "F32"}
	size, err := synth.Size(c)
	require.NoError(t, err)
	var steps []int64
	require.NoError(t, synth.Write(t.Context(), io.Discard, c, func(done, total int64) {
		require.Equal(t, size, total)
		steps = append(steps, done)
	}))
	require.Equal(t, size, steps[len(steps)-1])
	require.IsIncreasing(t, steps)

	enough := errors.New("enough")
	for n := range steps {
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		if n == 0 {
			cancel(enough)
		}
		err := synth.Write(ctx, io.Discard, c, func(done, total int64) {
			if calls++; calls == n && done < total {
				cancel(enough)
			}
		})
		if context.Cause(ctx) != nil {
			require.ErrorIs(t, err, enough, "stopped after step %d", n)
		}
		cancel(nil)
	}
}

// A failing writer's error comes back.
func TestWriterFails(t *testing.T) {
	full := errors.New("disk full")
	for n := range 20 {
		err := synth.Write(t.Context(), &failing{left: n, err: full}, synth.Config{Shape: tiny, Type: "Q8_0"}, nil)
		require.ErrorIs(t, err, full)
	}
}

type failing struct {
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, f.err
	}
	return len(p), nil
}
