//go:build unix

package kernel

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"unsafe"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// guarded returns a copy of p between two pages that can't be touched: one
// begins where the copy ends, or with low the other ends where it begins. The
// rest of its own pages is filled with bytes that would show in a product.
func guarded[T any](t *testing.T, p []T, low bool) []T {
	if len(p) == 0 {
		return p
	}
	page, size := os.Getpagesize(), len(p)*int(unsafe.Sizeof(p[0]))
	inner := (size + page - 1) / page * page
	m, err := unix.Mmap(-1, 0, inner+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(m)) })
	require.NoError(t, unix.Mprotect(m[:page], unix.PROT_NONE))
	require.NoError(t, unix.Mprotect(m[page+inner:], unix.PROT_NONE))
	own := m[page : page+inner]
	for i := range own {
		own[i] = 0xa5
	}
	if !low {
		own = own[inner-size:]
	}
	q := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(own))), len(p))
	copy(q, p)
	return q
}

// No kernel reads or writes outside of its operands.
func TestGuardPages(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ gguf.Type) {
		for _, rows := range []int{3, 8, 17} {
			for _, n := range []int{1, 2, 3, 4, 5, 8, 13} {
				for _, low := range []bool{false, true} {
					rng := rand.New(rand.NewPCG(uint64(rows), uint64(n)))
					k := (1 + rng.IntN(3)) * max(8, typ.BlockValues())
					w := randomMatrix(rng, typ, rows, k)
					x := randomActs(rng, n*k)
					a := actsFor(typ, n, k, x)
					want := make([]float32, n*rows)
					mulGeneric(want, rows, w, a, 0, rows)

					w.Data = guarded(t, w.Data, low)
					a.recs, a.f32 = guarded(t, a.recs, low), guarded(t, a.f32, low)
					a.Quantize(guarded(t, x, low), 0, n)
					got := guarded(t, make([]float32, n*rows), low)
					Mul(got, rows, w, a, 0, rows)
					sameBits(t, want, got, fmt.Sprintf("%d rows, %d columns", rows, n))

					if familyOf(typ).panel != nil {
						p := *w
						p.Layout, p.Data = Panels, guarded(t, make([]byte, len(w.Data)), low)
						Interleave(typ, rows, k, p.Data, w.Data)
						clear(got)
						Mul(got, rows, &p, a, 0, rows)
						sameBits(t, want, got, fmt.Sprintf("panels, %d rows, %d columns", rows, n))
					}
				}
			}
		}
	})
}
