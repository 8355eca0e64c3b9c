package pipeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/stage"
)

// What takes longest is the limiter; without floats to make, the dequantizer's
// work is to fill pins.
func TestLimiterNames(t *testing.T) {
	worked := func(passes, read, dequantized, computed int) (s Stats) {
		s.Passes = int64(passes)
		s.Stream.Reader = stage.Counts{Working: time.Duration(read)}
		s.Dequantizer = stage.Counts{Working: time.Duration(dequantized)}
		s.Compute = stage.Counts{Working: time.Duration(computed)}
		return s
	}
	for _, tc := range []struct {
		stats   Stats
		expands bool
		want    Limiter
	}{
		{worked(0, 3, 2, 1), true, ""},
		{worked(1, 3, 2, 1), true, LimitStorage},
		{worked(1, 1, 2, 3), true, LimitArithmetic},
		{worked(1, 1, 3, 2), true, LimitDequantize},
		{worked(1, 1, 3, 2), false, LimitPinning},
		{worked(1, 3, 2, 1), false, LimitStorage},
	} {
		require.Equal(t, tc.want, tc.stats.limiter(tc.expands))
	}
}
