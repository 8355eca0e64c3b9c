//go:build !linux

package ioactor

func adviseSequential(File)             {}
func adviseWillNeed(File, int64, int64) {}
func adviseDone(File, int64, int64)     {}
