package main

import (
	"os"

	"github.com/vbauerster/cupwriter"
)

// sameFile reports whether two of the standard streams are the same file.
func sameFile(a, b any) bool {
	stat := func(stream any) os.FileInfo {
		f, ok := stream.(*os.File)
		if !ok {
			return nil
		}
		info, err := f.Stat()
		if err != nil {
			return nil
		}
		return info
	}
	x, y := stat(a), stat(b)
	return x != nil && y != nil && os.SameFile(x, y)
}

// isTerminal reports whether stream, one of the standard streams, is a
// terminal. It asks the library that draws the progress bar, so that the two
// agree.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && cupwriter.New(f, false).IsTerminal()
}
