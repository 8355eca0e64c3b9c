package pipeline_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/pipeline/sample"
)

const demo = "../model/demo/demo.gguf"

func Example() {
	engine, err := pipeline.Open(demo, pipeline.WithBuffers(2))
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	for token, err := range engine.Generate(context.Background(), pipeline.GenConfig{Prompt: "Once upon a time", MaxTokens: 8}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(token.Text)
	}
	// Output: there was a cheerful child named Max.
}

// Statistics say how well the pipeline kept up.
func ExampleEngine_Generate() {
	engine, err := pipeline.Open(demo)
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	var stats pipeline.GenStats
	for _, err := range engine.Generate(context.Background(), pipeline.GenConfig{
		Prompt: "Once upon a time", MaxTokens: 8,
		Sampling: sample.Config{Temperature: 0.8, TopK: 40, Seed: 7},
		Stats:    &stats,
	}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(stats.PromptTokens, stats.GeneratedTokens, stats.Passes, stats.PrefetchHits+stats.PrefetchMisses)
	// Output: 5 8 8 72
}

// A session gives logits instead of text.
func ExampleSession() {
	engine, err := pipeline.Open(demo, pipeline.WithKV("f32"))
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	session, err := engine.NewSession(64)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	logits, err := session.Feed(context.Background(), []int32{1, 264, 30}, 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(logits), session.Len())
	// Output: 3072 3
}

// A program streams blocks of its own: here four pieces of a file, in order and
// over and over, each read while the one before is in use.
func ExampleOpenStream() {
	dir, err := os.MkdirTemp("", "stream")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "data")
	if err := os.WriteFile(path, []byte("one  two  threefour "), 0o600); err != nil {
		log.Fatal(err)
	}
	var blocks []pipeline.Block
	for i := range int64(4) {
		blocks = append(blocks, pipeline.Block{Name: fmt.Sprint("piece ", i), Extents: []pipeline.Extent{{Off: 5 * i, Size: 5}}})
	}

	ctx := context.Background()
	stream, err := pipeline.OpenStream(ctx, pipeline.StreamConfig{Files: []string{path}, Blocks: blocks, Buffers: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	for range 2 {
		for b := range blocks {
			parts, err := stream.Block(ctx, b)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s|", parts[0])
		}
	}
	// Output: one  |two  |three|four |one  |two  |three|four |
}

// Storage of a program's own is a backend like any other; here it reads the
// files with pread, as an object store would be read with its client.
func ExampleNewBackend() {
	mine := pipeline.NewBackend("mine", func(paths []string) (ioactor.Backend, error) {
		return ioactor.OpenPread(paths, ioactor.HintNone)
	})
	engine, err := pipeline.Open(demo, pipeline.WithBackend(mine))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(mine, engine.Close())
	// Output: mine <nil>
}
