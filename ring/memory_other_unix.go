//go:build unix && !linux

package ring

func adviseHuge([]byte) {}
