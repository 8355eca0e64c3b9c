package dequant_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/dequant"
)

// The references reach only a part of the larger grids, so digests of the whole
// grids stand here. Those of IQ1 and IQ2_S, of which nearly half is not reached,
// were made from another published form of the tables (the decimal numbers in
// ggml-quants.c) than the bitmaps were.
func TestGrids(t *testing.T) {
	for _, tc := range []struct {
		name   string
		grid   any
		sha256 string // of the points, little-endian
	}{
		{"IQ1", dequant.GridIQ1(), "07540ffc1aeaf6ad4d97e96b0fcc765aae39671d4ae4a27bbd0e796fde167c6a"},
		{"IQ2_XXS", dequant.GridIQ2XXS(), "05826b5d3e472a3a78f196be62ac78acf81df0f909626e12ab9fa2a5d490dd54"},
		{"IQ2_XS", dequant.GridIQ2XS(), "06e47aaca60b4dc1d9b5a3f34540437058a6b142b4d7a59d5ded769b4d1bf1de"},
		{"IQ2_S", dequant.GridIQ2S(), "e1aa1473412b0552c2174c30ef22ab4073f6a181b85a17056e8249bd2932fd88"},
		{"IQ3_XXS", dequant.GridIQ3XXS(), "46e35f5a997efdee6c99ce57854c8a0d4f0ff8ca57e5e8a60c0793ea580acf5d"},
		{"IQ3_S", dequant.GridIQ3S(), "bd1af4945a1717c65610b0284e4628b9a1ba3b306fae3a06f6e5f597356e349f"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := sha256.New()
			require.NoError(t, binary.Write(h, binary.LittleEndian, tc.grid))
			require.Equal(t, tc.sha256, hex.EncodeToString(h.Sum(nil)))
		})
	}
}
