package main

import (
	"os"

	"github.com/vbauerster/cupwriter"
)

// isTerminal reports whether stream, one of the standard streams, is a
// terminal. It asks the library that draws the progress bar, so that the two
// agree.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && cupwriter.New(f, false).IsTerminal()
}
