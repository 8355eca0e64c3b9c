package ioactor_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ioactor/readertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openPread(paths []string) (ioactor.Backend, error) { return ioactor.OpenPread(paths) }

func TestPread(t *testing.T) { readertest.Run(t, openPread) }

func BenchmarkPread(b *testing.B) { readertest.Bench(b, openPread) }
