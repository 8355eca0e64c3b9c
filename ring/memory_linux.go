package ring

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A refusal (a kernel without huge pages) leaves ordinary pages.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }

// HugeBytes is how much of the process's memory is in huge pages. It is for a
// look now and then, when slots have been written once: what [Alloc] asked for
// may be refused, by the machine's settings or because its memory is in pieces.
// It is 0 where the system does not tell.
func HugeBytes() int64 {
	b, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "AnonHugePages: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}
