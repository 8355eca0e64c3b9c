//go:build slotdebug || race

package ring

// poison: a slot that comes home is overwritten, so that whoever still reads
// it fails loudly.
const poison = true
