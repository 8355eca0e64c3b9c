package stage_test

import (
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/stage"
)

// Virtual time: what the meter tells is exact.
func TestMeterTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(stage.Meter)
		time.Sleep(time.Hour) // before the first Enter nothing counts
		require.Zero(t, m.Counts())

		start := time.Now()
		for _, step := range []struct {
			a stage.Activity
			d time.Duration
		}{
			{stage.Working, 3}, {stage.WaitingInput, 5}, {stage.Working, 7}, {stage.Working, 11}, {stage.WaitingRoom, 13}, {stage.WaitingInput, 17},
		} {
			m.Enter(step.a)
			time.Sleep(step.d)
		}
		want := stage.Counts{Working: 3 + 7 + 11, WaitingInput: 5 + 17, WaitingRoom: 13}
		require.Equal(t, want, m.Counts(), "the present activity counts up to now")
		require.Equal(t, time.Since(start), want.Working+want.WaitingInput+want.WaitingRoom)

		m.Stop()
		time.Sleep(time.Hour)
		m.Stop()
		require.Equal(t, want, m.Counts(), "a stopped clock stands")

		m.Enter(stage.WaitingRoom)
		time.Sleep(19 * time.Nanosecond)
		m.Stop()
		want.WaitingRoom += 19
		require.Equal(t, want, m.Counts(), "and can go on")
	})
}

func TestMeterCount(t *testing.T) {
	m := new(stage.Meter)
	m.Count(10)
	before := m.Counts()
	require.Equal(t, stage.Counts{Blocks: 1, Bytes: 10}, before)
	m.Count(0)
	m.Count(1 << 40)
	require.Equal(t, stage.Counts{Blocks: 2, Bytes: 1 << 40}, m.Counts().Sub(before))
}

func TestCountsSub(t *testing.T) {
	a := stage.Counts{Blocks: 10, Bytes: 20, Working: 30, WaitingInput: 40, WaitingRoom: 50}
	b := stage.Counts{Blocks: 1, Bytes: 2, Working: 3, WaitingInput: 4, WaitingRoom: 5}
	require.Equal(t, stage.Counts{Blocks: 9, Bytes: 18, Working: 27, WaitingInput: 36, WaitingRoom: 45}, a.Sub(b))
	require.Zero(t, a.Sub(a))
	require.Equal(t, a, a.Sub(stage.Counts{}))
}

// The names are read by programs.
func TestCountsJSON(t *testing.T) {
	b, err := json.Marshal(stage.Counts{Blocks: 1, Bytes: 2, Working: 3, WaitingInput: 4, WaitingRoom: 5})
	require.NoError(t, err)
	require.JSONEq(t, `{"blocks":1,"bytes":2,"working_nanos":3,"waiting_input_nanos":4,"waiting_room_nanos":5}`, string(b))
}

func TestNilMeter(t *testing.T) {
	var m *stage.Meter
	m.Enter(stage.Working)
	m.Count(1)
	m.Stop()
	require.Zero(t, m.Counts())
}

// Readers see every count grow, never shrink, while the actor writes.
func TestMeterReadWhileWritten(t *testing.T) {
	m := new(stage.Meter)
	const blocks = 5000
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			var last stage.Counts
			for stop := false; !stop; {
				select {
				case <-done:
					stop = true
				default:
				}
				c := m.Counts()
				d := c.Sub(last)
				if min(d.Blocks, d.Bytes, int64(d.Working), int64(d.WaitingInput), int64(d.WaitingRoom)) < 0 || c.Bytes != 4*c.Blocks {
					t.Errorf("%+v after %+v", c, last)
					return
				}
				last = c
			}
		})
	}
	for range blocks {
		m.Enter(stage.WaitingInput)
		m.Enter(stage.Working)
		m.Count(4)
	}
	m.Stop()
	close(done)
	readers.Wait()
	require.Equal(t, int64(blocks), m.Counts().Blocks)
}
