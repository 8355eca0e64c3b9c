//go:build !amd64 || purego

package vec

// Here is no assembly: all elements are left to portable Go.

func dotFast(*lanes, []float32, []float32) int                        { return 0 }
func dotF16Fast(*lanes, []float32, []uint16) int                      { return 0 }
func addFast(_, _ []float32) int                                      { return 0 }
func addScaledFast(_, _ []float32, _ float32) int                     { return 0 }
func addScaledF16Fast([]float32, []uint16, float32) int               { return 0 }
func scaleFast([]float32, float32) int                                { return 0 }
func scaleMulFast(_, _, _ []float32, _ float32) int                   { return 0 }
func fromF16Fast([]float32, []uint16) int                             { return 0 }
func toF16Fast([]uint16, []float32) int                               { return 0 }
func expFast(_, _ []float32) int                                      { return 0 }
func expSumFast(*lanes, []float32, float32) int                       { return 0 }
func maxFast(*lanes, []float32) (n int, nan bool)                     { return 0, false }
func siluMulFast(_, _, _ []float32) int                               { return 0 }
func geluMulFast(_, _, _ []float32) int                               { return 0 }
func ropePairsFast(_, _, _ []float32) int                             { return 0 }
func ropeHalvesFast(_, _, _, _ []float32) int                         { return 0 }
func (Group) scoresFast(_, _, _ []float32, _ float32) int             { return 0 }
func (Group) scoresF16Fast(_, _ []float32, _ []uint16, _ float32) int { return 0 }
func (Group) mixFast(_, _, _ []float32) int                           { return 0 }
func (Group) mixF16Fast(_, _ []float32, _ []uint16) int               { return 0 }
