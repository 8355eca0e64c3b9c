package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ring"
)

// directReads tries to read path past the page cache.
func directReads(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	page, err := ring.Alloc(ioactor.Align)
	if err != nil {
		return false, err
	}
	defer page.Free()
	if _, err := f.ReadAt(page.Bytes(), 0); err != nil && !errors.Is(err, unix.EINTR) {
		return false, err
	}
	return true, nil
}

// checkSystem looks at the settings of the system.
func (d *doctorCommand) checkSystem() {
	d.checkHugePages("/sys/kernel/mm/transparent_hugepage/enabled")
	d.checkLocked("/proc/meminfo")
}

// checkHugePages reads the setting, of which the one in brackets holds.
func (d *doctorCommand) checkHugePages(path string) {
	const advice = "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
	b, err := os.ReadFile(path)
	if err != nil {
		d.add("huge pages", statusWarn, "", "this kernel has none: slots are read into and computed on a little slower")
		return
	}
	_, rest, _ := strings.Cut(string(b), "[")
	setting, _, _ := strings.Cut(rest, "]")
	if setting == "always" || setting == "madvise" {
		d.add("huge pages", statusOK, "", "%s", setting)
		return
	}
	d.add("huge pages", statusWarn, advice, "%q: slots are read into and computed on a little slower", setting)
}

// checkLocked looks whether what stays in memory can be swapped out, and whether
// the process may lock it.
func (d *doctorCommand) checkLocked(meminfo string) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		d.add("locked memory", statusWarn, "", "%v", err)
		return
	}
	text := "no limit"
	if limit.Cur < 1<<62 {
		text = "at most " + size(int64(limit.Cur))
	}
	if swap := fieldKiB(meminfo, "SwapTotal:"); swap > 0 {
		d.add("locked memory", statusWarn, "if the machine swaps during a run, lower --memory, or turn swap off", "%s; %s of swap: blocks that stay can be swapped out, pipectl locks nothing", text, size(swap))
		return
	}
	d.add("locked memory", statusOK, "", "%s; no swap, so what stays does stay", text)
}

// fieldKiB returns a field of a file such as /proc/meminfo, in bytes.
func fieldKiB(path, name string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var n int64
		if _, err := fmt.Sscanf(s.Text(), name+" %d kB", &n); err == nil {
			return n << 10
		}
	}
	return 0
}
