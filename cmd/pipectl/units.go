package main

import (
	"fmt"
	"strings"
	"time"
)

// count writes x, which is not negative, with three significant digits or all
// before the point.
func count(x float64) string {
	switch {
	case x >= 99.95 || x == 0:
		return fmt.Sprintf("%.0f", x)
	case x >= 9.995:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

// scaled writes x in the first of units, each base times the one before, that
// keeps it below base.
func scaled(x, base float64, units ...string) string {
	for len(units) > 1 && x >= base-0.5 {
		x /= base
		units = units[1:]
	}
	return count(x) + " " + units[0]
}

// size writes an amount of memory or storage.
func size(bytes int64) string {
	return scaled(float64(bytes), 1024, "B", "KiB", "MiB", "GiB", "TiB")
}

// bandwidth writes a rate, in powers of 1000 as devices are sold.
func bandwidth(bytesPerSecond float64) string {
	return scaled(bytesPerSecond, 1000, "B/s", "kB/s", "MB/s", "GB/s")
}

// duration writes a time.
func duration(seconds float64) string {
	if seconds >= 120 {
		return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
	}
	if seconds >= 0.9995 || seconds == 0 {
		return count(seconds) + " s"
	}
	return scaled(seconds*1e6, 1000, "µs", "ms")
}

// counted writes how many of what noun names there are.
func counted[N int | int64](n N, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
