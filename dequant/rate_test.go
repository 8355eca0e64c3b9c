package dequant_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/model/gguf"
)

func TestRate(t *testing.T) {
	for _, typ := range dequant.Types() {
		require.Positive(t, dequant.Rate(typ), typ.String())
	}
	require.Zero(t, dequant.Rate(gguf.Type(200)))
}
