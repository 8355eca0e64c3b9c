// Command pipectl runs language models that are larger than memory: their
// weights are streamed from storage, block by block, while the previous block
// is computed. Without a model of one's own it runs a small one that is built
// in.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)   // the second signal kills
	signal.Ignore(syscall.SIGPIPE) // a closed pipe is an error of the write
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
