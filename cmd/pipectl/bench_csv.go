package main

import (
	"encoding/csv"
	"io"
	"strconv"
)

// writeCSV writes a line for each run, with the units of the JSON form. The last
// run of a way that failed has an error, and no figures.
func (r *benchReport) writeCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	columns := []string{
		"way", "cache", "round", "tokens_per_second", "first_token_seconds", "prefetch_hits", "prefetch_misses", "stall_share",
		"read_bytes_per_second", "device_bytes_per_second", "peak_rss_bytes", "total_seconds", "passes", "logits_sha256", "overlap_efficiency", "error",
	}
	_ = c.Write(columns) // an error stays in c
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	device := ""
	if r.Device != nil {
		device = number(r.Device.BytesPerSecond)
	}
	for _, x := range r.Results {
		for round, s := range x.Runs {
			_ = c.Write([]string{
				x.Way, x.Cache, strconv.Itoa(round), number(s.TokensPerSecond), number(s.FirstTokenSeconds), whole(s.PrefetchHits), whole(s.PrefetchMisses),
				number(s.StallShare), number(s.ReadBytesPerSecond), device, whole(s.PeakRSSBytes), number(s.TotalSeconds), whole(s.Passes), s.LogitsSHA256,
				number(s.OverlapEfficiency), "",
			})
		}
		if x.Error != "" {
			row := make([]string, len(columns))
			row[0], row[1], row[2], row[len(row)-1] = x.Way, x.Cache, strconv.Itoa(len(x.Runs)), x.Error
			_ = c.Write(row)
		}
	}
	c.Flush()
	return c.Error()
}
