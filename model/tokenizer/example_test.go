package tokenizer_test

import (
	"fmt"
	"log"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/tokenizer"
)

func demo() *tokenizer.Tokenizer {
	f, err := gguf.Open("../demo/demo.gguf")
	if err != nil {
		log.Fatal(err)
	}
	tok, err := tokenizer.New(f.Metadata)
	if err != nil {
		log.Fatal(err)
	}
	return tok
}

func ExampleNew() {
	f, err := gguf.Open("../demo/demo.gguf")
	if err != nil {
		log.Fatal(err)
	}
	tok, err := tokenizer.New(f.Metadata)
	if err != nil {
		log.Fatal(err)
	}
	eos, _ := tok.EOS()
	fmt.Println(tok.Size(), tok.Token(eos), tok.IsEnd(eos))
	// Output: 1024 </s> true
}

func ExampleTokenizer_Encode() {
	tok := demo()
	for _, id := range tok.Encode("Once upon a time", tokenizer.Options{AddSpecial: true}) {
		fmt.Printf("%q ", tok.Token(id))
	}
	// Output: "<s>" "▁Once" "▁upon" "▁a" "▁time"
}

func ExampleTokenizer_Decoder() {
	tok := demo()
	d := tok.Decoder()
	for _, id := range tok.Encode("né", tokenizer.Options{}) {
		fmt.Printf("%s gives %q\n", tok.Token(id), d.Next(id))
	}
	fmt.Printf("at the end %q\n", d.Flush())
	// Output:
	// ▁n gives "n"
	// <0xC3> gives ""
	// <0xA9> gives "é"
	// at the end ""
}
