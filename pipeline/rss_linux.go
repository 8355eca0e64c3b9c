package pipeline

import (
	"bytes"
	"os"
	"strconv"
)

// peakRSS returns the most memory that the process has had resident, in bytes,
// 0 if the system does not tell. It is VmHWM and not ru_maxrss: that of a
// process includes what its parent had before the exec.
func peakRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	field, _, _ := bytes.Cut(bytes.TrimLeft(rest, " \t"), []byte(" "))
	kib, _ := strconv.ParseInt(string(field), 10, 64)
	return kib << 10
}
