package kernel

import "github.com/layerpipe/layerpipe/model/gguf"

// PanelLayout reports whether a matrix of type t is worth interleaving.
func PanelLayout(t gguf.Type, rows, cols int) bool { return false }

// Interleave turns a matrix from layout [Rows] in src into [Panels] in dst,
// which may be src.
func Interleave(t gguf.Type, rows, cols int, dst, src []byte) {
	copy(dst, src[:rows*t.RowBytes(cols)])
}
