package gguf_test

import (
	"bytes"
	"fmt"
	"io"
	"log"

	"github.com/layerpipe/layerpipe/model/gguf"
)

func ExampleOpen() {
	f, err := gguf.Open("../demo/demo.gguf")
	if err != nil {
		log.Fatal(err)
	}
	layers, err := gguf.GetOr(f.Metadata, "llama.block_count", 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(layers, "layers,", len(f.Tensors), "tensors")
	if t, ok := f.Tensor("blk.0.ffn_down.weight"); ok {
		fmt.Println(t.Rows(), "rows of", t.Dims[0], t.Type, "values,", t.Size, "bytes")
	}
	// Output:
	// 8 layers, 74 tensors
	// 256 rows of 512 Q6_K values, 107520 bytes
}

func ExampleWriter() {
	var m gguf.Metadata
	m.Set("general.architecture", "llama")
	specs := []gguf.TensorSpec{{Name: "output_norm.weight", Type: gguf.F32, Dims: []int{64}}}

	var file bytes.Buffer
	w, err := gguf.NewWriter(&file, &m, specs)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range w.Tensors() {
		err := w.WriteTensor(t.Name, func(w io.Writer) error {
			_, err := w.Write(make([]byte, t.Size))
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(file.Len(), "bytes")
	// Output: 384 bytes
}
