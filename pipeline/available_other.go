//go:build !linux

package pipeline

// availableMemory is not known on this system.
func availableMemory(string) (n int64, source string, ok bool) { return 0, "", false }

func residentNow(string) int64 { return 0 }
