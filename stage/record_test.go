package stage_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/stage"
)

func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(stage.Meter)
		m.Record(time.Now(), 100)
		time.Sleep(1 * time.Nanosecond)
		m.Enter(stage.Working)
		m.Task("read", 0) // names what has begun
		time.Sleep(2 * time.Nanosecond)
		m.Count(10)
		m.Task("read", 0) // the same goes on
		time.Sleep(3 * time.Nanosecond)
		m.Task("read", 1) // another begins
		time.Sleep(4 * time.Nanosecond)
		m.Count(20)
		require.Equal(t, 9*time.Nanosecond, time.Duration(m.Counts().Working), "a task in between loses no time")
		m.Read("ready", 7)
		require.Equal(t, time.Duration(4), m.Enter(stage.WaitingRoom), "since the last event")
		time.Sleep(5 * time.Nanosecond)
		m.Enter(stage.Working)
		time.Sleep(6 * time.Nanosecond)
		m.Task("read", 2)
		time.Sleep(7 * time.Nanosecond)
		m.Stop()
		m.Task("nothing", 3) // the clock stands
		m.Stop()

		const w, room = stage.Working, stage.WaitingRoom
		events, forgotten := m.Events()
		require.Zero(t, forgotten)
		require.Equal(t, []stage.Event{
			{Activity: w, Start: 1, End: 6, Task: "read", Block: 0, Bytes: 10},
			{Activity: stage.Reading, Start: 10, End: 10, Task: "ready", Block: -1, Bytes: 7},
			{Activity: w, Start: 6, End: 10, Task: "read", Block: 1, Bytes: 20},
			{Activity: room, Start: 10, End: 15, Block: -1},
			{Activity: w, Start: 15, End: 28, Task: "read", Block: 2},
		}, events)
	})
}

// The ring keeps the latest.
func TestRecordForgets(t *testing.T) {
	m := new(stage.Meter)
	m.Record(time.Now(), 4)
	m.Enter(stage.Working)
	for b := range 11 {
		m.Task("task", b)
	}
	m.Stop()
	events, forgotten := m.Events()
	require.EqualValues(t, 7, forgotten)
	require.Len(t, events, 4)
	for i, e := range events {
		require.Equal(t, 7+i, e.Block)
		if i > 0 {
			require.Equal(t, events[i-1].End, e.Start)
		}
	}
}

func TestRecordCosts(t *testing.T) {
	recorded := new(stage.Meter)
	recorded.Record(time.Now(), 64)
	for name, m := range map[string]*stage.Meter{"nil": nil, "off": new(stage.Meter), "on": recorded} {
		block := 0
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			m.Enter(stage.Working)
			m.Task("task", block)
			m.Read("ready", 1)
			block++
		}), name)
	}
	events, forgotten := new(stage.Meter).Events()
	require.Empty(t, events)
	require.Zero(t, forgotten)
}

func BenchmarkTask(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(map[bool]string{false: "off", true: "on"}[on], func(b *testing.B) {
			m := new(stage.Meter)
			if on {
				m.Record(time.Now(), 1<<10)
			}
			m.Enter(stage.Working)
			block := 0
			for b.Loop() {
				m.Task("task", block)
				block++
			}
		})
	}
}
