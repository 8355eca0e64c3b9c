//go:build !linux

package pipeline

// availableMemory is not known on this system.
func availableMemory(string) (n int64, source string, hard, ok bool) { return 0, "", false, false }

func residentNow(string) int64 { return 0 }
