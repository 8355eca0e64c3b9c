//go:build !slotdebug && !race

package ring

const poison = false
