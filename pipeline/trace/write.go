package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/layerpipe/layerpipe/stage"
)

// categories are what the file calls activities.
var categories = map[stage.Activity]string{
	stage.Working:      "working",
	stage.WaitingInput: "waiting_input",
	stage.WaitingRoom:  "waiting_room",
}

// unnamed is the name of an event that the actor gave none.
func unnamed(track string, a stage.Activity) string {
	switch {
	case a == stage.Working:
		return "work"
	case a == stage.WaitingRoom:
		return "wait for a slot"
	case track == Passes:
		return "wait for a pass"
	}
	return "wait for a block"
}

// process is the number that the file gives the process: any will do.
const process = 1

// Write writes t as a JSON object in the trace-event format
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU):
// a thread for each track, a slice for each activity, a counter for each number
// that was read, and one for the bandwidth of the reader. Times are in
// microseconds with three decimals, so that nothing is lost.
func (t *Trace) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	line := func(format string, args ...any) { fmt.Fprintf(b, format, args...) } // an error stays in b
	line(`{"displayTimeUnit":"ms","traceEvents":[` + "\n")
	line(`{"name":"process_name","ph":"M","pid":%d,"tid":0,"args":{"name":"layerpipe"}}`, process)
	for i, track := range t.Tracks {
		thread := i + 1
		line(",\n"+`{"name":"thread_name","ph":"M","pid":%d,"tid":%d,"args":{"name":%s,"forgotten":%d}}`, process, thread, quote(track.Name), track.Forgotten)
		line(",\n"+`{"name":"thread_sort_index","ph":"M","pid":%d,"tid":%[2]d,"args":{"sort_index":%[2]d}}`, process, thread)
		block, bytes := "block", "bytes"
		if track.Name == Passes {
			block, bytes = "pass", "tokens"
		}
		for _, e := range track.Events {
			if e.Activity == stage.Reading {
				line(",\n"+`{"name":%s,"ph":"C","pid":%d,"tid":%d,"ts":%s,"args":{"value":%d}}`, quote(e.Task), process, thread, micros(e.Start), e.Bytes)
				continue
			}
			line(",\n"+`{"name":%s,"cat":%q,"ph":"X","pid":%d,"tid":%d,"ts":%s,"dur":%s,"args":{%q:%d,%q:%d}}`,
				quote(cmp.Or(e.Task, unnamed(track.Name, e.Activity))), categories[e.Activity], process, thread, micros(e.Start), micros(e.End-e.Start), block, e.Block, bytes, e.Bytes)
			if track.Name == Reader && e.Bytes > 0 && e.End > e.Start {
				rate := float64(e.Bytes) / (e.End - e.Start).Seconds() / 1e6
				const counter = ",\n" + `{"name":"read bandwidth","ph":"C","pid":%d,"tid":%d,"ts":%s,"args":{"MB/s":%.1f}}`
				line(counter, process, thread, micros(e.Start), rate)
				line(counter, process, thread, micros(e.End), 0.0)
			}
		}
	}
	line("\n]}\n")
	if err := b.Flush(); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

func quote(s string) []byte {
	b, _ := json.Marshal(s) // a string has a form
	return b
}

func micros(d time.Duration) string { return fmt.Sprintf("%d.%03d", d/1000, d%1000) }
