//go:build !linux

package ioactor

func storageReads() (int64, bool) { return 0, false }

// MemoryFS returns the name of the file system of path if its files are in
// memory. Here it is never known.
func MemoryFS(string) string { return "" }
