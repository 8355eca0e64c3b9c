//go:build !purego

package team

// pause tells the processor that this is a spinning loop. The generic twin does
// nothing, in pause_generic.go.
//
//go:noescape
func pause()
