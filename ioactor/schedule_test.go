package ioactor_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
)

// The commands of testdata/schedule.txt:
//
//	new BLOCKS DEPTH [BLOCK...]   a schedule; the blocks named are loaded once
//	next N                        the next N loads, as block@seq
//	demand BLOCK after SEQ
func TestSchedule(t *testing.T) {
	var s *ioactor.Schedule
	runScript(t, "testdata/schedule.txt", func(command string, args []string) string {
		n := func(i int) int {
			x, err := strconv.Atoi(args[i])
			require.NoError(t, err)
			return x
		}
		switch command {
		case "new":
			var once []int
			for i := range args[2:] {
				once = append(once, n(2+i))
			}
			s = ioactor.NewSchedule(n(0), n(1), func(b int) bool { return slices.Contains(once, b) })
			return "ok"
		case "next":
			var out []string
			for range n(0) {
				block, seq, ok := s.Next()
				if !ok {
					out = append(out, "nothing is left")
					break
				}
				out = append(out, fmt.Sprintf("%d@%d", block, seq))
			}
			return strings.Join(out, " ")
		case "demand":
			s.Demand(ioactor.Demand{Block: n(0), After: uint64(n(2))})
			return "ok"
		}
		t.Fatalf("unknown command %q", command)
		return ""
	})
}
