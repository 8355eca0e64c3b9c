package ring

import (
	"errors"
	"fmt"
	"runtime"
)

// ErrFault reports memory that could not be read: a page of a mapped file that
// became shorter, or whose storage failed.
var ErrFault = errors.New("mapped memory cannot be read any more")

// CatchFault makes a fault of memory, that is under way as a panic, an [ErrFault]
// in err. It is for deferring where slots may point into mappings of files, with
// [debug.SetPanicOnFault] set. Other panics go on.
//
// [debug.SetPanicOnFault]: https://pkg.go.dev/runtime/debug#SetPanicOnFault
func CatchFault(err *error) {
	switch r := recover().(type) {
	case nil:
	case interface { // other errors of the runtime, which are bugs, have no address
		runtime.Error
		Addr() uintptr
	}:
		*err = fmt.Errorf("%w: at address %#x", ErrFault, r.Addr())
	default:
		panic(r)
	}
}
