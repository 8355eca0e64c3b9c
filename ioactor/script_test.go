package ioactor_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the expected outputs in testdata")

// runScript runs the commands of a script and compares what they print. A
// script is a list of cases: comment lines that begin with #, a command line,
// the line ----, and the lines that the command prints; a blank line ends it.
func runScript(t *testing.T, path string, run func(command string, args []string) string) {
	script, err := os.ReadFile(path)
	require.NoError(t, err)
	var got strings.Builder
	cases := 0
	for _, c := range strings.Split(strings.TrimSpace(string(script)), "\n\n") {
		for line := range strings.Lines(strings.TrimSpace(c) + "\n") {
			if line == "----\n" {
				break
			}
			got.WriteString(line)
			if strings.HasPrefix(line, "#") {
				continue
			}
			words := strings.Fields(line)
			got.WriteString("----\n" + run(words[0], words[1:]) + "\n")
			cases++
		}
		got.WriteString("\n")
	}
	require.NotZero(t, cases)
	out := strings.TrimSpace(got.String()) + "\n"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(out), 0o644))
	}
	require.Equal(t, string(script), out, "run with -update and review the difference")
}
