package synth_test

import (
	"fmt"

	"github.com/layerpipe/layerpipe/model/synth"
)

// How much room Llama 2 70B takes.
func ExampleSize() {
	shape, err := synth.ParseShape("70b")
	if err != nil {
		fmt.Println(err)
		return
	}
	size, err := synth.Size(synth.Config{Shape: shape, Type: "Q4_K_M"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.2f GB\n", float64(size)/1e9)
	// Output: 41.42 GB
}
