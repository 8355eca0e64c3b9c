package kernel

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/stretchr/testify/require"
)

// The fields of a panel are those of the block, without gaps and overlaps.
func TestPanelFields(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ gguf.Type) {
		f := familyOf(typ)
		if f.panel == nil {
			t.Skip("no panels")
		}
		seen := make([]bool, typ.BlockBytes())
		for _, p := range f.panel {
			for i := p.off; i < p.off+p.size; i++ {
				require.False(t, seen[i], "byte %d twice", i)
				seen[i] = true
			}
			require.Zero(t, p.size%p.unit)
		}
		require.NotContains(t, seen, false)
		require.LessOrEqual(t, typ.BlockBytes(), maxBlock)
	})
}

func TestInterleave(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ gguf.Type) {
		f := familyOf(typ)
		if f.panel == nil {
			require.Panics(t, func() { Interleave(typ, 8, 32, make([]byte, 8*typ.RowBytes(32)), make([]byte, 8*typ.RowBytes(32))) })
			return
		}
		for rows := 0; rows <= 18; rows++ {
			rng := rand.New(rand.NewPCG(10, uint64(rows)))
			nb := rng.IntN(4)
			w := randomMatrix(rng, typ, rows, nb*typ.BlockValues())
			p := panels(w)
			whole := rows &^ 7 * typ.RowBytes(w.Cols)
			require.True(t, bytes.Equal(w.Data[whole:], p.Data[whole:]), "the last rows moved")

			block := make([]byte, typ.BlockBytes())
			for r := range rows &^ 7 {
				for i := range nb {
					takeOut(f, block, p.Data[(r&^7*nb+8*i)*len(block):], r%8)
					require.Equal(t, w.Data[(r*nb+i)*len(block):][:len(block)], block, "row %d block %d", r, i)
				}
			}
			Interleave(typ, rows, w.Cols, w.Data, w.Data)
			require.True(t, bytes.Equal(p.Data, w.Data), "in place")
		}
	})
}
