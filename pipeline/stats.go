package pipeline

import (
	"time"

	"github.com/layerpipe/layerpipe/stage"
)

// Stats is what an [Engine] has counted since it was opened.
type Stats struct {
	Stream      StreamStats  `json:"stream"`
	Dequantizer stage.Counts `json:"dequantizer"`
	Compute     stage.Counts `json:"compute"`
	Passes      int64        `json:"passes"`     // trips through all blocks
	BytesRead   int64        `json:"bytes_read"` // blocks and rows of the embedding
}

// Stats returns what has been counted up to now. It may be called at any time,
// from any goroutine.
func (e *Engine) Stats() Stats {
	s := Stats{
		Stream: e.stream.Stats(), Dequantizer: e.dequantizer.Counts(), Compute: e.compute.Counts(), Passes: e.passCount.Load(),
	}
	s.BytesRead = s.Stream.Reader.Bytes + e.rowBytes.Load()
	return s
}

// sub returns what was counted between the earlier reading o and s.
func (s Stats) sub(o Stats) Stats {
	return Stats{
		Stream: StreamStats{
			Reader: s.Stream.Reader.Sub(o.Stream.Reader),
			Hits:   s.Stream.Hits - o.Stream.Hits, Misses: s.Stream.Misses - o.Stream.Misses,
			Resident: s.Stream.Resident - o.Stream.Resident, Loaded: s.Stream.Loaded - o.Stream.Loaded, Discarded: s.Stream.Discarded - o.Stream.Discarded,
			Stall: s.Stream.Stall - o.Stream.Stall,
		},
		Dequantizer: s.Dequantizer.Sub(o.Dequantizer), Compute: s.Compute.Sub(o.Compute),
		Passes: s.Passes - o.Passes, BytesRead: s.BytesRead - o.BytesRead,
	}
}

// A Limiter is what kept a run from being faster: the work of an actor.
type Limiter string

// The limiters.
const (
	LimitStorage    Limiter = "storage"
	LimitDequantize Limiter = "dequantizing"
	LimitArithmetic Limiter = "arithmetic"
	// LimitPinning is the dequantizer where no streamed block needs floats: it fills
	// the pinned blocks in the first pass, and does nothing later.
	LimitPinning Limiter = "pinning"
)

// limiter names the actor that worked longest: in a pipeline it is the one
// that the others wait for. expands says that the dequantizer makes floats for
// each pass. Without a whole pass there is nothing to judge by.
func (s Stats) limiter(expands bool) Limiter {
	if s.Passes == 0 {
		return ""
	}
	read, dequantize := s.Stream.Reader.Working, s.Dequantizer.Working
	arithmetic := s.Compute.Working
	switch most := max(read, dequantize, arithmetic); most {
	case arithmetic:
		return LimitArithmetic
	case read:
		return LimitStorage
	}
	if !expands {
		return LimitPinning
	}
	return LimitDequantize
}

// overlapEfficiency is [GenStats].OverlapEfficiency.
func (s Stats) overlapEfficiency() float64 {
	passes := s.Compute.Working + s.Stream.Stall
	if s.Passes == 0 || passes <= 0 {
		return 0
	}
	longest := max(s.Stream.Reader.Working, s.Dequantizer.Working, s.Compute.Working)
	return min(1, longest.Seconds()/passes.Seconds()) // the reader works between passes too
}

// GenStats describes one generation: what the engine counted from its beginning to
// its end, also for other sessions that were fed meanwhile. Rates are 0 where there
// was nothing to measure.
//
// OverlapEfficiency is the time that storage, dequantizing or arithmetic alone
// takes, the longest of them, divided by the time of the passes, in which compute
// worked or waited for blocks. 1 is what cannot be better, short of less work for
// the limiter. With nothing hidden behind other work it is the share of the
// longest in the sum of all. A trace has the same figure for each pass.
type GenStats struct {
	Text                 string   `json:"text"`
	PromptTokens         int      `json:"prompt_tokens"`
	GeneratedTokens      int      `json:"generated_tokens"`
	StopReason           string   `json:"stop_reason"`                       // "end", "stop", "length", "context", "cancelled" or "error"
	FirstTokenSeconds    float64  `json:"first_token_seconds"`               // from the call to the first token
	TokensPerSecond      float64  `json:"tokens_per_second"`                 // of decoding, without the prompt
	TotalSeconds         float64  `json:"total_seconds"`                     // from the call to the end
	Passes               int64    `json:"passes"`                            // trips through all blocks
	TokensPerPass        float64  `json:"tokens_per_pass"`                   // prompt and generated
	PrefetchHits         int64    `json:"prefetch_hits"`                     // blocks that were ready when compute wanted them
	PrefetchMisses       int64    `json:"prefetch_misses"`                   // blocks that compute waited for
	ResidentHits         int64    `json:"resident_hits"`                     // hits of blocks that stay in memory
	StallSeconds         float64  `json:"stall_seconds"`                     // time that compute waited for blocks
	StallShare           float64  `json:"stall_share"`                       // of TotalSeconds
	OverlapEfficiency    float64  `json:"overlap_efficiency"`                // 0 to 1
	BytesRead            int64    `json:"bytes_read"`                        // from storage, or the page cache
	BytesPerPass         float64  `json:"bytes_per_pass"`                    //
	ReadBytesPerSecond   float64  `json:"read_bytes_per_second"`             // while the reader was reading
	DeviceBytesPerSecond float64  `json:"device_bytes_per_second,omitempty"` // what the probe measured; 0 without
	CeilingBytes         int64    `json:"ceiling_bytes,omitempty"`           // what the plan allows the process; 0 for no limit
	PeakRSSBytes         int64    `json:"peak_rss_bytes"`                    // of the whole process, since its start
	Limiter              Limiter  `json:"limiter"`                           // "" if no pass was completed
	LogitsSHA256         string   `json:"logits_sha256"`                     // over the rows that were sampled from, little-endian float32
	Backend              string   `json:"backend"`
	Buffers              int      `json:"buffers"`
	Notes                []string `json:"notes,omitempty"` // see [Engine.Notes]
	Actors               Stats    `json:"actors"`
}

// fill computes g from what the engine counted during the generation. expands is
// as limiter has it.
func (g *GenStats) fill(s Stats, expands bool, total, first, decode time.Duration) {
	g.TotalSeconds, g.FirstTokenSeconds = total.Seconds(), first.Seconds()
	if n := g.GeneratedTokens - 1; n > 0 && decode > 0 {
		g.TokensPerSecond = float64(n) / decode.Seconds()
	}
	g.Passes, g.Actors, g.Limiter = s.Passes, s, s.limiter(expands)
	g.OverlapEfficiency = s.overlapEfficiency()
	g.PrefetchHits, g.PrefetchMisses, g.ResidentHits = s.Stream.Hits, s.Stream.Misses, s.Stream.Resident
	g.StallSeconds = s.Stream.Stall.Seconds()
	g.BytesRead = s.BytesRead
	if total > 0 {
		g.StallShare = g.StallSeconds / total.Seconds()
	}
	if g.Passes > 0 {
		g.TokensPerPass = float64(g.PromptTokens+g.GeneratedTokens) / float64(g.Passes)
		g.BytesPerPass = float64(g.BytesRead) / float64(g.Passes)
	}
	if t := s.Stream.Reader.Working; t > 0 {
		g.ReadBytesPerSecond = float64(s.Stream.Reader.Bytes) / t.Seconds()
	}
	g.PeakRSSBytes = peakRSS()
}
