package ring_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/layerpipe/layerpipe/ring"
)

func TestPopulate(t *testing.T) {
	const size, slack = 64<<20 + 12345, 16 << 20
	m, err := ring.Alloc(size)
	require.NoError(t, err)
	defer m.Free()
	b := m.Bytes()
	b[0], b[size-1], b[30<<20] = 1, 2, 3
	before := residentBytes(t)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.Populate(ctx)
	require.Less(t, residentBytes(t)-before, int64(slack), "it was told to stop")

	m.Populate(t.Context())
	if unix.Madvise(b[:4096], unix.MADV_POPULATE_WRITE) != nil {
		t.Skip("the kernel cannot do it")
	}
	require.Greater(t, residentBytes(t)-before, int64(size-slack))
	require.Equal(t, []byte{1, 2, 3}, []byte{b[0], b[size-1], b[30<<20]})
	require.Equal(t, size-3, bytes.Count(b, []byte{0}))

	var none *ring.Memory
	none.Populate(t.Context())
}
