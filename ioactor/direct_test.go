package ioactor_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ioactor/readertest"
)

func openDirect(o ioactor.DirectOptions) readertest.Opener {
	return func(paths []string) (ioactor.Backend, error) {
		d, err := ioactor.OpenDirect(paths, o)
		if err != nil {
			return nil, err
		}
		return d, nil
	}
}

func TestDirect(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    ioactor.DirectOptions
	}{
		{"defaults", ioactor.DirectOptions{}},
		{"least chunk", ioactor.DirectOptions{Chunk: 1}},
		{"a chunk that is no power of two", ioactor.DirectOptions{Chunk: 3*4096 - 1}},
		{"1 MiB", ioactor.DirectOptions{Chunk: 1 << 20}},
	} {
		t.Run(tc.name, func(t *testing.T) { readertest.Run(t, openDirect(tc.o)) })
	}
}

func TestDirectOptions(t *testing.T) {
	for _, tc := range []struct {
		o    ioactor.DirectOptions
		want string
	}{
		{ioactor.DirectOptions{Chunk: -1}, "chunk of -1 bytes"},
		{ioactor.DirectOptions{Chunk: 1<<30 + 1}, "chunk of 1073741825 bytes"},
	} {
		_, err := ioactor.OpenDirect([]string{filepath.Join(t.TempDir(), "absent")}, tc.o)
		require.ErrorContains(t, err, tc.want)
	}
}

func BenchmarkDirect(b *testing.B) { readertest.Bench(b, openDirect(ioactor.DirectOptions{})) }
