package pipeline_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/pipeline"
)

// readBytes is how many bytes the process has read, as the kernel counts under
// name: "rchar" at the system call, "read_bytes" at the device.
func readBytes(t *testing.T, name string) int64 {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(b)) {
		var n int64
		if _, err := fmt.Sscanf(line, name+": %d", &n); err == nil {
			return n
		}
	}
	t.Skipf("/proc/self/io has no %s", name)
	return 0
}

// What the engine says it has read is what the kernel has seen it read, and with
// direct reads what the device has delivered.
func TestBytesRead(t *testing.T) {
	path := synthetic(t, "4x512x1024x8x8x512", "F16")

	const buffers = 2
	e, err := pipeline.Open(path, pipeline.WithBuffers(buffers), pipeline.WithBackend(pipeline.Direct),
		pipeline.WithProbe(ioactor.ProbeResult{BytesPerSecond: 1e9, Chunk: 1 << 20, InFlight: 1}))
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	// settled waits until the reader has filled all slots, and can read no more.
	settled := func() pipeline.Stats {
		for {
			s := e.Stats()
			if s.Stream.Reader.Blocks == s.Passes*int64(len(e.Model().Blocks))+buffers {
				return s
			}
			runtime.Gosched()
		}
	}
	generate(t, e, 1, 1) // pages of the program that are not in memory are read from a device too
	before, callsBefore, deviceBefore := settled(), readBytes(t, "rchar"), readBytes(t, "read_bytes")
	generate(t, e, 1, 4)
	after, callsAfter, deviceAfter := settled(), readBytes(t, "rchar"), readBytes(t, "read_bytes")

	got := float64(after.BytesRead - before.BytesRead)
	require.Greater(t, got, 4*20e6, "all of the model, four times")
	require.InEpsilon(t, float64(callsAfter-callsBefore), got, 0.01)
	if notes := e.Notes(); len(notes) > 0 || deviceAfter == deviceBefore {
		t.Skipf("no direct reads of a device here: %q", notes)
	}
	require.InEpsilon(t, float64(deviceAfter-deviceBefore), got, 0.01)
}
