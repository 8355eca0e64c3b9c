package synth

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// The first numbers of SplitMix64 as its author's C program prints them for the
// seed 1234567.
func TestRandom(t *testing.T) {
	r := random(1234567)
	p := make([]byte, step)
	r.fill(p)
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431} {
		require.Equal(t, want, binary.LittleEndian.Uint64(p[8*i:]))
	}
	require.EqualValues(t, uint64(16408922859458223821), r.next())
}
