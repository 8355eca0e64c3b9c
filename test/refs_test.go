package test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// demoModel is the model that comes with the repository.
const demoModel = "../model/demo/demo.gguf"

// reference is an entry of the reference logits (ref/NAME.json).
type reference struct {
	Name  string   `json:"-"`
	Files []string `json:"files"`
	Arch  string   `json:"arch"`
	Model string   `json:"model"`
	Type  string   `json:"type"`

	Vocab        int       `json:"n_vocab"`
	Tokens       []int32   `json:"tokens"`
	Greedy       []int32   `json:"greedy"`
	GreedyMargin []float32 `json:"greedy_margin"`
	GreedyFloat  int       `json:"greedy_same_as_dequantized"` // how many are the same with float activations
	KVOfF32KV    string    `json:"kv_of_f32kv"`                // what f32kv means; "K f32, V f16" where the other engine could not do better
	Tolerance    struct {
		Max, RMS, Top1 *float64
		PosMedian      *float64 `json:"pos_median"`
		PosP90         *float64 `json:"pos_p90"`
		F32Act         *float64 `json:"f32act_max"`
		NP64           *float64 `json:"np64_max"`
	} `json:"tolerance"`

	dir string
}

// committed is where the references are that come with the repository.
const committed = "testdata/refs"

// refsDir is where the reference models and logits are: $LAYERPIPE_REFS, or
// beside the repository. Tests that need more of them than testdata has are
// skipped without.
func refsDir(t testing.TB) string {
	dir := os.Getenv("LAYERPIPE_REFS")
	if dir == "" {
		dir = "../../shared/refs"
	}
	if _, err := os.Stat(filepath.Join(dir, "index.json")); err != nil {
		t.Skipf("no reference data in %s; set LAYERPIPE_REFS", dir)
	}
	return dir
}

// references returns the entries of a directory.
func references(t testing.TB, dir string) []reference {
	var index []struct{ Name, Ref, Arch string }
	readJSON(t, filepath.Join(dir, "index.json"), &index)
	var refs []reference
	for _, e := range index {
		r := reference{Name: e.Name, dir: dir}
		readJSON(t, filepath.Join(dir, e.Ref), &r)
		refs = append(refs, r)
	}
	require.NotEmpty(t, refs, "references in %s", dir)
	return refs
}

func readJSON(t testing.TB, path string, v any) {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, v))
}

func (r *reference) model() string { return filepath.Join(r.dir, r.Files[0]) }

// logits reads a file of little-endian float32, Vocab for each token. Where only
// the model has been committed, it skips the test.
func (r *reference) logits(t testing.TB, path string) []float32 {
	b, err := os.ReadFile(filepath.Join(r.dir, path))
	if r.dir == committed && errors.Is(err, fs.ErrNotExist) {
		t.Skip("these logits are not among the committed references")
	}
	require.NoError(t, err)
	require.Len(t, b, 4*len(r.Tokens)*r.Vocab)
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

// difference is how far two sets of logits are apart.
type difference struct {
	most, rms   float64 // over all logits
	top1        float64 // the share of positions with the same largest logit
	median, p90 float64 // over the positions, of the largest difference in each
}

func (r *reference) compare(got, want []float32) difference {
	var sum float64
	same := 0
	positions := make([]float64, len(r.Tokens))
	for p := range r.Tokens {
		g, w := got[p*r.Vocab:][:r.Vocab], want[p*r.Vocab:][:r.Vocab]
		bg, bw := 0, 0
		for i := range g {
			d := math.Abs(float64(g[i]) - float64(w[i]))
			if math.IsNaN(d) {
				d = math.Inf(1)
			}
			positions[p] = max(positions[p], d)
			sum += d * d
			if g[i] > g[bg] {
				bg = i
			}
			if w[i] > w[bw] {
				bw = i
			}
		}
		if bg == bw {
			same++
		}
	}
	slices.Sort(positions)
	n := len(positions)
	return difference{
		most: positions[n-1], rms: math.Sqrt(sum / float64(len(got))), top1: float64(same) / float64(n),
		median: positions[n/2], p90: positions[n*9/10],
	}
}
