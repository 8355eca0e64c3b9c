package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/layerpipe/layerpipe/pipeline"
)

// A runReport is what pipectl run --json writes.
type runReport struct {
	Model string  `json:"model"`
	Seed  *uint64 `json:"seed,omitempty"` // nil for a greedy run, which has no use for one
	pipeline.GenStats
	Error string `json:"error,omitempty"` // why it failed
}

// write writes the statistics for people.
func (r *runReport) write(w io.Writer) {
	if isTerminal(w) {
		fmt.Fprintln(w)
	}
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "%-12s"+format+"\n", append([]any{label}, args...)...)
	}
	known := func(x float64, s string) string { // rates are 0 where there was nothing to measure
		if x == 0 {
			return "-"
		}
		return s
	}
	line("prompt", "%s, %s to the first token", counted(r.PromptTokens, "token"), known(r.FirstTokenSeconds, duration(r.FirstTokenSeconds)))
	line("generated", "%s, %s tokens/s, %s", counted(r.GeneratedTokens, "token"), known(r.TokensPerSecond, count(r.TokensPerSecond)), cmp.Or(stopReasons[r.StopReason], r.StopReason))
	line("prefetch", "%s, %s, stalled for %s (%.1f %%)", counted(r.PrefetchHits, "hit"), counted(r.PrefetchMisses, "miss"), duration(r.StallSeconds), 100*r.StallShare)
	share := ""
	if r.DeviceBytesPerSecond > 0 {
		share = fmt.Sprintf(", %.0f %% of the device", 100*r.ReadBytesPerSecond/r.DeviceBytesPerSecond)
	}
	each := ""
	if r.StopReason != "cancelled" && r.StopReason != "error" { // a pass that was begun was read for too
		each = size(int64(r.BytesPerPass)) + " a pass, "
	}
	line("read", "%s in %s, %s%s%s (%s, buffers: %d)", size(r.BytesRead), counted(r.Passes, "pass"), each, known(r.ReadBytesPerSecond, bandwidth(r.ReadBytesPerSecond)), share, r.Backend, r.Buffers)
	ceiling := ""
	if r.CeilingBytes > 0 {
		ceiling = " of " + size(r.CeilingBytes)
	}
	line("memory", "%s at the peak%s", known(float64(r.PeakRSSBytes), size(r.PeakRSSBytes)), ceiling)
	line("limited by", "%s", known(r.OverlapEfficiency, fmt.Sprintf("%s; overlap efficiency %.3f", cmp.Or(limiters[r.Limiter], string(r.Limiter)), r.OverlapEfficiency)))
	for _, note := range r.Notes {
		line("note", "%s", note)
	}
	if r.Seed == nil {
		line("seed", "none, greedy")
	} else {
		line("seed", "%d", *r.Seed)
	}
}

// limiters says in words what a name does not.
var limiters = map[pipeline.Limiter]string{
	pipeline.LimitPinning: "pinning, the work of the first pass alone: filling the blocks that stay",
}

// stopReasons says in words why a generation ended.
var stopReasons = map[string]string{
	"end":       "to the end of the text",
	"stop":      "to a stop text",
	"length":    "as many as -n allows",
	"context":   "until the context was full (--ctx)",
	"cancelled": "stopped early",
	"error":     "failed",
}
