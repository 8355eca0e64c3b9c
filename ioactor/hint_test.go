package ioactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ioactor/readertest"
)

var hints = []ioactor.Hint{ioactor.HintNone, ioactor.HintFadvise, ioactor.HintWillNeed}

func openPread(h ioactor.Hint) readertest.Opener {
	return func(paths []string) (ioactor.Backend, error) {
		p, err := ioactor.OpenPread(paths, h)
		if err != nil {
			return nil, err
		}
		return p, nil
	}
}

func TestParseHint(t *testing.T) {
	for i, name := range []string{"none", "fadvise", "willneed"} {
		h, err := ioactor.ParseHint(name)
		require.NoError(t, err)
		require.Equal(t, hints[i], h)
		require.Equal(t, name, h.String())
	}
	_, err := ioactor.ParseHint("WILLNEED")
	require.EqualError(t, err, `hint "WILLNEED": not one of none, fadvise, willneed`)
	require.Equal(t, "hint 9", ioactor.Hint(9).String())
}
