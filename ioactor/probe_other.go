//go:build !linux

package ioactor

func storageReads() (int64, bool) { return 0, false }

func memoryFS(string) string { return "" }
