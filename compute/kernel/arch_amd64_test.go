//go:build amd64 && !purego

package kernel

import (
	"bytes"
	"os"
	"regexp"
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
			require.NotNil(t, fastFloat[typ].pack)
			return
		}
		require.NotNil(t, fast[typ].mul[0])
		if familyOf(typ).panel == nil {
			require.NotNil(t, fast[typ].decode)
			require.Nil(t, vnni[typ].group, "a machine with VNNI runs the kernels of AVX2")
			require.False(t, PanelLayout(typ, 8, 512))
			return
		}
		require.NotNil(t, fast[typ].interleave)
		require.True(t, PanelLayout(typ, 8, 512))
		require.False(t, PanelLayout(typ, 7, 512))
	})
}

// The register allocator takes any of 32 registers, but instructions with the
// upper ones exist in AVX-512 only.
func TestRegisters(t *testing.T) {
	src, err := os.ReadFile("kernel_amd64.s")
	require.NoError(t, err)
	upper := regexp.MustCompile(`\b([XY](1[6-9]|2[0-9]|3[01])|Z[0-9]+|K[0-7])\b`)
	found := 0
	for _, f := range bytes.Split(src, []byte("\nTEXT "))[1:] {
		name, _, _ := bytes.Cut(f, []byte("("))
		switch m := upper.Find(f); {
		case bytes.HasSuffix(name, []byte("VNNI")), bytes.HasSuffix(name, []byte("AVX512")):
			require.NotNil(t, m, "%s: is this test vacuous?", name)
			found++
		default:
			require.Nil(t, m, "%s has %s", name, m)
		}
	}
	require.NotZero(t, found)
}
