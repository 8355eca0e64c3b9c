package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testFiles writes two files of 100,000 bytes, each byte telling its place, and
// lists ten blocks of two extents in them.
func testFiles(t testing.TB) ([]string, [][]byte, []pipeline.Block) {
	var paths []string
	var data [][]byte
	for f := range 2 {
		b := make([]byte, 100_000)
		for i := range b {
			b[i] = byte(i*31 + f + i>>8)
		}
		path := filepath.Join(t.TempDir(), "blocks.bin")
		require.NoError(t, os.WriteFile(path, b, 0o600))
		paths, data = append(paths, path), append(data, b)
	}
	var blocks []pipeline.Block
	for i := range int64(10) {
		blocks = append(blocks, pipeline.Block{Name: "block", Extents: []pipeline.Extent{
			{File: int(i % 2), Off: 9000 * i, Size: 5001}, {File: int(1 - i%2), Off: 7 * i, Size: 1000 + i},
		}})
	}
	return paths, data, blocks
}

func TestStream(t *testing.T) {
	paths, data, blocks := testFiles(t)
	for _, backend := range pipeline.Backends() {
		for i, buffers := range []int{1, 2, 3, 20} {
			c := pipeline.StreamConfig{Files: paths, Blocks: blocks, Buffers: buffers, Backend: backend}
			if i%2 == 0 { // with three slots, two direct loads at once
				c.Probe = &ioactor.ProbeResult{BytesPerSecond: 1e9, Chunk: 4 << 10, InFlight: 2}
			}
			s, err := pipeline.OpenStream(t.Context(), c)
			require.NoError(t, err)
			check := func(b int) {
				parts, err := s.Block(t.Context(), b)
				require.NoError(t, err)
				require.Len(t, parts, len(blocks[b].Extents))
				for i, e := range blocks[b].Extents {
					require.True(t, bytes.Equal(data[e.File][e.Off:][:e.Size], parts[i]), "block %d, extent %d", b, i)
				}
			}
			for range 3 {
				for b := range blocks {
					check(b)
				}
			}
			for _, b := range []int{7, 8, 3, 3, 0, 9, 0} { // out of order
				check(b)
			}
			_, err = s.Block(t.Context(), 10)
			require.ErrorContains(t, err, "block 10 of 10")
			st := s.Stats()
			require.EqualValues(t, 3*len(blocks)+7, st.Hits+st.Misses, "every block asked for is a hit or a miss")
			require.Positive(t, st.Discarded)
			require.GreaterOrEqual(t, st.Reader.Blocks, st.Hits+st.Misses)
			require.NoError(t, s.Close())
			_, err = s.Block(t.Context(), 0)
			require.ErrorIs(t, err, pipeline.ErrClosed)
			require.NoError(t, s.Close(), "again")
		}
	}
}

func TestStreamConfig(t *testing.T) {
	paths, _, blocks := testFiles(t)
	for _, tc := range []struct {
		name   string
		change func(*pipeline.StreamConfig)
		want   string
	}{
		{"no blocks", func(c *pipeline.StreamConfig) { c.Blocks = nil }, "no blocks"},
		{"no such file", func(c *pipeline.StreamConfig) { c.Files = []string{paths[0], "/no/such"} }, "/no/such"},
		{"a file number beyond", func(c *pipeline.StreamConfig) { c.Files = paths[:1] }, "file 1 of 1"},
		{"an extent beyond its file", func(c *pipeline.StreamConfig) {
			c.Blocks = []pipeline.Block{{Name: "far", Extents: []pipeline.Extent{{Off: 99_999, Size: 2}}}}
		}, "far"},
		{"negative buffers", func(c *pipeline.StreamConfig) { c.Buffers = -1 }, "-1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := pipeline.StreamConfig{Files: paths, Blocks: blocks}
			tc.change(&c)
			_, err := pipeline.OpenStream(t.Context(), c)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestStreamEnds(t *testing.T) {
	paths, _, blocks := testFiles(t)
	t.Run("with the context it was opened under", func(t *testing.T) {
		stop := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		s, err := pipeline.OpenStream(ctx, pipeline.StreamConfig{Files: paths, Blocks: blocks})
		require.NoError(t, err)
		cancel(stop)
		for err == nil { // at most the two blocks that are there already
			_, err = s.Block(context.Background(), 0)
		}
		require.ErrorIs(t, err, stop)
		require.ErrorIs(t, s.Close(), stop)
	})
	t.Run("not with the context of one call", func(t *testing.T) {
		s, err := pipeline.OpenStream(t.Context(), pipeline.StreamConfig{Files: paths, Blocks: blocks, Buffers: 1})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for b := range blocks { // one that is ready may still come
			_, err := s.Block(ctx, b)
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
		}
		_, err = s.Block(t.Context(), 5)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	})
}
