package ring_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/layerpipe/layerpipe/ring"
)

// residentBytes is the anonymous memory of the process that is in use.
func residentBytes(t *testing.T) int64 {
	b, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	var size, resident, shared int64
	_, err = fmt.Sscan(string(b), &size, &resident, &shared)
	require.NoError(t, err)
	return (resident - shared) * int64(os.Getpagesize())
}

// What is freed goes back to the system at once, and what is not touched takes
// none: the memory plan counts on it.
func TestMemoryGoesBack(t *testing.T) {
	const (
		size  = 64 << 20
		slack = 16 << 20 // what the runtime may do meanwhile
	)
	before := residentBytes(t)
	m, err := ring.Alloc(size)
	require.NoError(t, err)
	require.Less(t, residentBytes(t)-before, int64(slack), "untouched")
	b := m.Bytes()
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	touched := residentBytes(t) - before
	require.Greater(t, touched, int64(size-slack), "touched")
	require.Less(t, touched, int64(size+slack), "touched")
	m.Free()
	require.Less(t, residentBytes(t)-before, int64(slack), "freed")
}

func TestCloseGivesMemoryBack(t *testing.T) {
	const slack = 16 << 20
	before := residentBytes(t)
	r := newRing(t, 2, 24<<20, 8<<20)
	slots := []*ring.Slot{acquire(t, r), acquire(t, r)}
	for _, s := range slots {
		for _, b := range [][]byte{s.Load(), s.Work()} {
			for i := 0; i < len(b); i += os.Getpagesize() {
				b[i] = 1
			}
		}
	}
	require.Greater(t, residentBytes(t)-before, int64(64<<20-slack))
	for _, s := range slots {
		s.Free()
	}
	r.Close()
	require.Less(t, residentBytes(t)-before, int64(slack))
}

// Slots are in huge pages where the machine has them, and it can be told.
func TestHugeBytes(t *testing.T) {
	const size = 32 << 20
	thp, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(thp), "[never]") {
		t.Skip("no huge pages on this machine")
	}
	before := ring.HugeBytes()
	m, err := ring.Alloc(size)
	require.NoError(t, err)
	b := m.Bytes()
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	if ring.HugeBytes()-before <= size/2 {
		// A mapping that surely asks for them tells whether there are any.
		plain, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		require.NoError(t, err)
		defer func() { require.NoError(t, unix.Munmap(plain)) }()
		require.NoError(t, unix.Madvise(plain, unix.MADV_HUGEPAGE))
		before := ring.HugeBytes()
		for i := 0; i < len(plain); i += os.Getpagesize() {
			plain[i] = 1
		}
		require.LessOrEqual(t, ring.HugeBytes()-before, int64(size/2), "there were huge pages to be had")
		t.Skip("the machine's memory is in too many pieces")
	}
	m.Free()
	require.Less(t, ring.HugeBytes()-before, int64(size/2))
}
