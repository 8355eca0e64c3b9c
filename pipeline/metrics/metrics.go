// Package metrics publishes the statistics of an engine for monitoring: to
// Prometheus as a [Collector], and to expvar. It is apart from the engine so that
// who does not need it does not compile the Prometheus client.
package metrics

import (
	"expvar"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/stage"
)

// A Collector is a [prometheus.Collector] of one engine. Its metrics are
// counters since the engine was opened, and begin with layerpipe_. What statistics
// of a generation derive from them is a matter of queries: the overlap efficiency,
// for example, is the largest rate of layerpipe_actor_seconds_total with activity
// "working" among the actors, divided by the sum of that of compute and of the rate
// of layerpipe_stall_seconds_total. A program with
// several engines registers each with a label of its own, see
// [prometheus.WrapRegistererWith].
type Collector struct {
	stats func() pipeline.Stats
}

// New returns a collector of what stats, such as the method Stats of an engine,
// returns when metrics are asked for. It holds on to stats as long as it is
// registered.
func New(stats func() pipeline.Stats) *Collector { return &Collector{stats} }

func counter(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("layerpipe_"+name, help, labels, nil)
}

// The names and labels are read by dashboards: they do not change.
var (
	passes    = counter("passes_total", "Passes of tokens through all blocks of the model.")
	readBytes = counter("read_bytes_total", "Bytes of the model that were read: blocks, and rows of the embedding.")
	hits      = counter("prefetch_hits_total", "Blocks that were in memory when compute asked for them.")
	misses    = counter("prefetch_misses_total", "Blocks that compute had to wait for.")
	resident  = counter("resident_hits_total", "Hits of blocks that stay in memory.")
	discarded = counter("discarded_blocks_total", "Blocks that were loaded and given back unused, because another was asked for.")
	stall     = counter("stall_seconds_total", "Time that compute waited for blocks.")
	seconds   = counter("actor_seconds_total", "Time of an actor, by what it did: working, waiting_input or waiting_room.", "actor", "activity")
	blocks    = counter("actor_blocks_total", "Blocks that an actor has sent on.", "actor")
	bytes     = counter("actor_bytes_total", "Bytes that an actor has brought or made.", "actor")
)

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{passes, readBytes, hits, misses, resident, discarded, stall, seconds, blocks, bytes} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
	}
	send(passes, float64(s.Passes))
	send(readBytes, float64(s.BytesRead))
	send(hits, float64(s.Stream.Hits))
	send(misses, float64(s.Stream.Misses))
	send(resident, float64(s.Stream.Resident))
	send(discarded, float64(s.Stream.Discarded))
	send(stall, s.Stream.Stall.Seconds())
	times := func(actor string, n stage.Counts) {
		send(seconds, n.Working.Seconds(), actor, "working")
		send(seconds, n.WaitingInput.Seconds(), actor, "waiting_input")
		send(seconds, n.WaitingRoom.Seconds(), actor, "waiting_room")
	}
	for _, a := range []struct {
		name   string
		counts stage.Counts
	}{{"reader", s.Stream.Reader}, {"dequantizer", s.Dequantizer}} {
		times(a.name, a.counts)
		send(blocks, float64(a.counts.Blocks), a.name)
		send(bytes, float64(a.counts.Bytes), a.name)
	}
	times("compute", s.Compute) // it sends nothing on
}

// Publish makes what stats returns a variable of package expvar, in the JSON form
// of [pipeline.Stats]. Like [expvar.Publish] it panics if the name is taken, and
// there is no way back: stats must work as long as the program runs, which the
// method Stats of an engine does, also after Close.
func Publish(name string, stats func() pipeline.Stats) {
	expvar.Publish(name, expvar.Func(func() any { return stats() }))
}
