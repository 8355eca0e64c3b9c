package ioactor_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/ioactor/readertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPread(t *testing.T) {
	for _, h := range hints {
		t.Run(h.String(), func(t *testing.T) { readertest.Run(t, openPread(h)) })
	}
}

func BenchmarkPread(b *testing.B) {
	for _, h := range hints {
		b.Run(h.String(), func(b *testing.B) { readertest.Bench(b, openPread(h)) })
	}
}
