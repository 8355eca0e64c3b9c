//go:build !linux

package main

// dropCached reports that the page cache keeps what it has: only Linux takes
// such a wish.
func dropCached([]string) (bool, error) { return false, nil }

// cachedShare does not know what the page cache holds.
func cachedShare([]string) (share float64, known bool, err error) { return 0, false, nil }
