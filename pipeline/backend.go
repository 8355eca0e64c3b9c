package pipeline

import (
	"fmt"
	"strings"

	"github.com/layerpipe/layerpipe/ioactor"
)

// A Backend says how blocks are read from storage. The zero value is [Pread].
type Backend struct {
	name   string
	opener func(paths []string) (ioactor.Backend, error)
}

// The backends.
var (
	// Pread reads at positions, through the page cache.
	Pread = Backend{"pread", func(p []string) (ioactor.Backend, error) { return ioactor.OpenPread(p, ioactor.HintNone) }}
	// Mmap copies from a mapping of the files.
	Mmap = Backend{"mmap", func(p []string) (ioactor.Backend, error) { return ioactor.OpenMmap(p, ioactor.HintNone) }}
)

// Backends lists the backends that come with the package.
func Backends() []Backend { return []Backend{Pread, Mmap} }

// NewBackend makes a backend of the program's own. open gets the paths of the
// files that the blocks' extents count by; the stream closes what it returns.
func NewBackend(name string, open func(paths []string) (ioactor.Backend, error)) Backend {
	return Backend{name, open}
}

// ParseBackend returns the backend of that name.
func ParseBackend(name string) (Backend, error) {
	var names []string
	for _, b := range Backends() {
		if b.name == name {
			return b, nil
		}
		names = append(names, b.name)
	}
	return Backend{}, fmt.Errorf("backend %q: not one of %s", name, strings.Join(names, ", "))
}

// String returns the backend's name.
func (b Backend) String() string {
	if b.opener == nil {
		return Pread.name
	}
	return b.name
}

func (b Backend) open(paths []string) (ioactor.Backend, error) {
	if b.opener == nil {
		b = Pread
	}
	return b.opener(paths)
}
