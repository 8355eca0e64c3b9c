//go:build amd64 && !purego

package kernel

import (
	"os"
	"testing"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/cpu"
)

// A vacuous comparison of portable Go with itself would pass TestSameBits.
func TestVectorKernelsRun(t *testing.T) {
	if !cpu.X86.HasAVX2 || os.Getenv("LAYERPIPE_KERNELS") == "generic" {
		t.Skip("portable Go only")
	}
	forAllTypes(t, func(t *testing.T, typ gguf.Type) {
		if familyOf(typ).form == formFloat {
			require.NotNil(t, fastFloat[typ][0])
			return
		}
		require.NotNil(t, fast[typ].interleave)
		require.True(t, PanelLayout(typ, 8, 512))
		require.False(t, PanelLayout(typ, 7, 512))
	})
}
