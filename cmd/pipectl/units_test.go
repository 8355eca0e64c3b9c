package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnits(t *testing.T) {
	for _, tc := range []struct{ want, got string }{
		{"0 B", size(0)},
		{"512 B", size(512)},
		{"1.00 KiB", size(1024)},
		{"412 MiB", size(412 << 20)},
		{"9.77 TiB", size(10_741_000_000_000)},
		{"1.53 GB/s", bandwidth(1.53e9)},
		{"1.00 MB/s", bandwidth(999_999)},
		{"12345 GB/s", bandwidth(12.345e12)},
		{"0 s", duration(0)},
		{"50.0 µs", duration(50e-6)},
		{"31.4 ms", duration(0.0314)},
		{"1.00 s", duration(0.9999)},
		{"3.20 s", duration(3.2)},
		{"100 s", duration(99.96)},
		{"3m12s", duration(192.2)},
		{"9.99", count(9.99)},
		{"10.0", count(9.999)},
		{"231", count(231.4)},
	} {
		require.Equal(t, tc.want, tc.got)
	}
}

func TestCounted(t *testing.T) {
	require.Equal(t, "0 tokens", counted(0, "token"))
	require.Equal(t, "1 pass", counted(1, "pass"))
	require.Equal(t, "2 passes", counted(int64(2), "pass"))
}
