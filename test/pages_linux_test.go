package test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func init() {
	ordinaryPages = func() error { return unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) }
}

// Where slots and pinned blocks cannot be in huge pages, the statistics say so,
// and nothing where they are.
func TestNotesOrdinaryPages(t *testing.T) {
	thp, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(thp), "[never]") {
		t.Skip("no huge pages on this machine")
	}
	path := synthetic(t, memoryModel)
	r := memoryChild{Path: path, Backend: "direct", Ordinary: true, Prompt: 1}.run(t)
	require.Contains(t, strings.Join(r.Notes, "\n"), "are in ordinary pages and not in huge ones")
	r = memoryChild{Path: path, Backend: "direct", Prompt: 1}.run(t)
	var all int64
	for _, i := range r.Plan.Items {
		if i.OffHeap {
			all += i.Bytes
		}
	}
	if r.Huge < all/2 {
		t.Skip("the machine's memory is in too many pieces")
	}
	require.NotContains(t, strings.Join(r.Notes, "\n"), "ordinary pages")
}
