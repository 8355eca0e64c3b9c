//go:build !linux

package pipeline

// availableMemory is not known on this system.
func availableMemory(string) available { return available{} }

func residentNow(string) int64 { return 0 }
