package dequant_test

import (
	"fmt"

	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/model/gguf"
)

// One block of Q8_0: the scale 0.5 and 32 signed bytes.
func ExampleFloat32() {
	block := make([]byte, gguf.Q8_0.BlockBytes())
	scale := dequant.F32ToF16(0.5)
	block[0], block[1] = byte(scale), byte(scale>>8)
	copy(block[2:], []byte{1, 2, 3, 0xff})

	values := make([]float32, gguf.Q8_0.BlockValues())
	if err := dequant.Float32(gguf.Q8_0, values, block); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(values[:5])
	// Output: [0.5 1 1.5 -0.5 0]
}
