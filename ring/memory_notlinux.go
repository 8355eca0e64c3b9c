//go:build !linux

package ring

// HugeBytes is how much of the process's memory is in huge pages. Only Linux
// tells.
func HugeBytes() int64 { return 0 }
