package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseMemory(t *testing.T) {
	for s, want := range map[string]Memory{
		"6GiB": {bytes: 6 << 30}, "6 gib": {bytes: 6 << 30}, "1.5G": {bytes: 3 << 29}, "500MB": {bytes: 500e6}, "512m": {bytes: 512 << 20},
		"123": {bytes: 123}, "123b": {bytes: 123}, "64KiB": {bytes: 64 << 10}, "1TB": {bytes: 1e12},
		"60%": {share: 0.6}, "150 %": {share: 1.5}, "floor": {floor: true}, "Floor ": {floor: true},
	} {
		got, err := ParseMemory(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
	}
	for _, s := range []string{"", "GiB", "-1GiB", "0", "0%", "-5%", "NaN", "NaN%", "inf", "1e300G", "six", "6 GiB 3", "ceiling"} {
		_, err := ParseMemory(s)
		require.ErrorContains(t, err, "60%", s)
	}
}
