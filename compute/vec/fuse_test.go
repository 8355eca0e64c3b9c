package vec_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A compiler may fuse x*y + z where the processor can, and then the bits differ.
// On arm64 Go does it wherever it may, so every such place must be closed.
func TestCompilerFusesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for arm64")
	}
	cmd := exec.Command("go", "build", "-gcflags=-S", ".")
	cmd.Env = append(os.Environ(), "GOARCH=arm64")
	out, err := cmd.CombinedOutput()
	listing := string(out)
	require.NoError(t, err, listing)
	require.Contains(t, listing, "FMULS", "the listing shows no arithmetic")
	for _, fused := range []string{"FMADD", "FMSUB", "FNMADD", "FNMSUB"} {
		if i := strings.Index(listing, "\t"+fused); i >= 0 {
			t.Fatal("fused: " + listing[max(0, i-100):i+50])
		}
	}
}
