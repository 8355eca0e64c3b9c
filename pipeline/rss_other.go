//go:build !linux

package pipeline

// peakRSS is not known on this system.
func peakRSS() int64 { return 0 }
