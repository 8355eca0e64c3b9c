package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Memory is a ceiling for the memory of the process, to be resolved when the
// model and the machine are known. The zero value is what is available.
type Memory struct {
	bytes int64
	share float64 // of the model's files
	floor bool
}

// MemoryBytes is a ceiling of n bytes, which must be more than 0.
func MemoryBytes(n int64) Memory { return Memory{bytes: cmp.Or(n, -1)} } // 0 would be no ceiling

// MemoryFloor is the least that works for the model.
func MemoryFloor() Memory { return Memory{floor: true} }

// units of sizes, the longest names first.
var memoryUnits = []struct {
	name  string
	bytes float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}, {"b", 1}, {"", 1},
}

// ParseMemory parses a number of bytes, a size such as 6GiB or 500MB, a share of
// the model's size such as 60%, or "floor" for the least that works.
func ParseMemory(s string) (Memory, error) {
	refuse := func() (Memory, error) {
		return Memory{}, fmt.Errorf("memory %q: not a size such as 6GiB, a share of the model such as 60%%, or floor", s)
	}
	text := strings.ToLower(strings.TrimSpace(s))
	if text == "floor" {
		return MemoryFloor(), nil
	}
	if number, ok := strings.CutSuffix(text, "%"); ok {
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(v > 0 && v <= 10000) {
			return refuse()
		}
		return Memory{share: v / 100}, nil
	}
	for _, u := range memoryUnits {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(v*u.bytes >= 1 && v*u.bytes < 1<<62) {
			return refuse()
		}
		return MemoryBytes(int64(v * u.bytes)), nil
	}
	return refuse()
}

// ErrMemory reports a ceiling in which the model cannot run.
var ErrMemory = errors.New("pipeline: not enough memory")

// A MemoryError is an [ErrMemory] that says how much would do.
type MemoryError struct {
	Ceiling int64  // bytes that there are
	Source  string // what sets the ceiling
	Floor   int64  // the least that works, with the other settings as they are
}

// Error implements error.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("%v: with these settings the model needs at least %s, and there are %s (%s)", ErrMemory, mib(e.Floor), mib(e.Ceiling), e.Source)
}

// Unwrap returns [ErrMemory].
func (e *MemoryError) Unwrap() error { return ErrMemory }

// mib rounds up, so that what it names suffices.
func mib(n int64) string { return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20) }
