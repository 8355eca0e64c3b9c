package pipeline

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// availableMemory returns how large this process may become, and what sets the
// limit: the free memory of the machine or the limit of a control group above
// the process, whichever is less. Page cache does not count as used: the kernel
// gives it up. root is "/" but in tests.
func availableMemory(root string) (a available) {
	own := ownMemory(root)
	if free, found := field(filepath.Join(root, "proc/meminfo"), "MemAvailable:"); found {
		a = available{bytes: free<<10 + own, source: "free memory of the machine", known: true}
	}
	for _, g := range controlGroups(root) {
		limit, used := g.memory()
		if limit <= 0 {
			continue
		}
		room, name := min(max(limit-used, 0)+own, limit), "limit of control group "+g.name
		if a.group == "" || room < a.room {
			a.group, a.room = name, room
		}
		if !a.known || room < a.bytes {
			a.bytes, a.source, a.known = room, name, true
		}
	}
	return a
}

// ownMemory is what the process has taken that is not the page cache's.
func ownMemory(root string) int64 {
	n, _ := field(filepath.Join(root, "proc/self/status"), "RssAnon:")
	return n << 10
}

// residentNow is the resident memory of the process.
func residentNow(root string) int64 {
	statm, err := os.ReadFile(filepath.Join(root, "proc/self/statm"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// A controlGroup is a directory of the memory controller.
type controlGroup struct {
	dir, name string
	v2        bool
}

// controlGroups lists the groups of the process and all above them, whose
// limits hold too.
func controlGroups(root string) []controlGroup {
	lines, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return nil
	}
	var groups []controlGroup
	for line := range strings.Lines(string(lines)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var mount string
		v2 := parts[1] == ""
		switch {
		case v2:
			mount = "sys/fs/cgroup"
		case strings.Contains(","+parts[1]+",", ",memory,"):
			mount = "sys/fs/cgroup/memory"
		default:
			continue
		}
		for path := filepath.Clean(parts[2]); ; path = filepath.Dir(path) {
			groups = append(groups, controlGroup{filepath.Join(root, mount, path), path, v2})
			if path == "/" || path == "." {
				break
			}
		}
	}
	return groups
}

// memory returns the group's limit, 0 for none, and what it uses besides page
// cache.
func (g controlGroup) memory() (limit, used int64) {
	limitFile, usageFile := "memory.limit_in_bytes", "memory.usage_in_bytes"
	cache := []string{"total_inactive_file", "total_active_file"}
	if g.v2 {
		limitFile, usageFile = "memory.max", "memory.current"
		cache = []string{"inactive_file", "active_file"}
	}
	limit = number(filepath.Join(g.dir, limitFile)) // "max" is no number
	if g.v2 {
		// Above memory.high the kernel slows a process down to a crawl.
		if high := number(filepath.Join(g.dir, "memory.high")); high > 0 && (limit <= 0 || high < limit) {
			limit = high
		}
	}
	if limit <= 0 || limit >= 1<<62 { // what version 1 says where there is no limit
		return 0, 0
	}
	used = number(filepath.Join(g.dir, usageFile))
	for _, name := range cache {
		n, _ := field(filepath.Join(g.dir, "memory.stat"), name)
		used -= n
	}
	return limit, max(used, 0)
}

func number(path string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	return n
}

// field returns the number behind name in a file of lines "name number".
func field(path, name string) (int64, bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) >= 2 && fields[0] == name {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
