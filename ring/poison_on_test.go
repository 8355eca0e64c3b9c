//go:build slotdebug || race

package ring_test

const poisoned = true
