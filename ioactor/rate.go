package ioactor

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/layerpipe/layerpipe/ring"
)

const (
	rateTime  = 100 * time.Millisecond // after which no further load is begun
	rateBytes = 256 << 20              // that are loaded at most
)

// Rate measures how many bytes a second b loads of a file of that size, the first
// that it was opened with: regions of it in random order, each timed once. If
// twice, each is loaded once before it is timed, so that what it measures is the
// page cache; the region of a small file, which has but one, always is. It takes
// some 8 MiB, and leaves b open.
func Rate(ctx context.Context, b Backend, size int64, twice bool) (float64, error) {
	region := min(maxRegion, max(1, size))
	slots, err := ring.New(1, region+2*Align, 0)
	if err != nil {
		return 0, err
	}
	defer slots.Close()
	s, err := slots.Acquire(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer s.Free()
	load := func(at int64) error {
		return b.Load(ctx, &Block{Name: "probe", Extents: []Extent{{Off: at, Size: min(region, size-at)}}}, s)
	}
	order := rand.Perm(int(min(max(1, size/region), maxRegions)))
	if err := load(int64(order[0]) * region); err != nil { // the slot's own memory is not measured
		return 0, err
	}
	if !twice && len(order) > 1 {
		order = order[1:] // a cache holds the first now
	}
	var bytes int64
	var took time.Duration
	// One at least, whatever the clock says.
	start := time.Now()
	for i := 0; i == 0 || i < len(order) && time.Since(start) < rateTime && bytes < rateBytes; i++ {
		at := int64(order[i]) * region
		if twice {
			if err := load(at); err != nil {
				return 0, err
			}
		}
		began := time.Now()
		if err := load(at); err != nil {
			return 0, err
		}
		took += max(1, time.Since(began))
		bytes += min(region, size-at)
	}
	return float64(bytes) / max(1e-9, took.Seconds()), nil
}
