package chat

import (
	"fmt"
	"time"

	"github.com/ardanlabs/jinja"
)

// The limits of one rendering. What a conversation brings comes on top.
const (
	maxSteps   = 8 << 20         // tags, rounds, and nodes of values that were looked at
	maxBytes   = 1 << 20         // of a value, with 16 for each node
	maxWritten = 8 << 20         // over all, with what macros return counted again
	maxDepth   = 100             // of a value
	maxMacros  = 64              // macros in each other
	maxRange   = 1 << 16         // elements of a range
	maxTime    = 2 * time.Second //
	nodeBytes  = 16              // what a node of a value counts at least
)

// A run is the state of one rendering.
type run struct {
	texts    []string
	now      time.Time
	deadline time.Time
	line     int // of the tag that began last

	steps, written, macros int
	maxBytes, maxWritten   int
}

// newRun is for a template and a conversation of so many bytes together.
func newRun(texts []string, size int, now time.Time) *run {
	return &run{
		texts: texts, now: now, deadline: time.Now().Add(maxTime), line: 1,
		maxBytes: maxBytes + 4*size, maxWritten: maxWritten + 16*size,
	}
}

func limit(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrLimit, fmt.Sprintf(format, args...))
}

// step counts n steps.
func (r *run) step(n int) error {
	if r.steps += n; r.steps > maxSteps {
		return limit("more than %d steps", maxSteps)
	}
	if time.Now().After(r.deadline) {
		return limit("more than %s", maxTime)
	}
	return nil
}

// write counts what is written.
func (r *run) write(s string) (jinja.Value, error) {
	if r.written += len(s); r.written > r.maxWritten {
		return jinja.None(), limit("more than %d bytes of output", r.maxWritten)
	}
	return jinja.NewString(s), nil
}

// size refuses n bytes that an operation would make.
func (r *run) size(n int) error {
	if n < 0 || n > r.maxBytes {
		return limit("a value of more than %d bytes", r.maxBytes)
	}
	return nil
}

// check refuses a value that is too large or too deep, as one is that contains
// itself, or that contains the list or dict of other.
func (r *run) check(v jinja.Value, other any) error {
	bytes, nodes := 0, 0
	var walk func(v jinja.Value, depth int) error
	walk = func(v jinja.Value, depth int) error {
		nodes++
		bytes += nodeBytes
		if depth > maxDepth {
			return limit("a value of more than %d levels", maxDepth)
		}
		if bytes > r.maxBytes {
			return r.size(bytes)
		}
		switch {
		case v.IsString():
			bytes += len(v.AsString())
		case v.IsList():
			if other != nil && other == any(v.AsList()) {
				return limit("a list that contains itself")
			}
			for _, x := range v.AsList().Items {
				if err := walk(x, depth+1); err != nil {
					return err
				}
			}
		case v.IsDict():
			if other != nil && other == any(v.AsDict()) {
				return limit("a dict that contains itself")
			}
			for _, key := range v.AsDict().Keys {
				bytes += len(key)
				if err := walk(v.AsDict().Data[key], depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := walk(v, 0); err != nil {
		return err
	}
	if err := r.size(bytes); err != nil {
		return err
	}
	return r.step(nodes)
}
