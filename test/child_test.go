package test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// runChild runs the test of that name in a process of its own, which finds spec in
// the environment variable env, and decodes what it writes into report.
func runChild(t testing.TB, test, env string, spec, report any) {
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), env+"="+string(text))
	out, err := cmd.Output()
	require.NoError(t, err, "%+v: %s", spec, out)
	require.NoError(t, json.NewDecoder(bytes.NewReader(out)).Decode(report), "%s", out)
}

// childSpec decodes what [runChild] has left in env into spec. A test that is no
// child is skipped.
func childSpec(t *testing.T, env string, spec any) {
	text := os.Getenv(env)
	if text == "" {
		t.Skip("only for the child processes of other tests")
	}
	require.NoError(t, json.Unmarshal([]byte(text), spec))
}

// A limit is a file of a control group below root, and what is written there.
type limit struct{ root, file, value string }

// makeGroup makes a control group with the first of limits that can be set, and
// returns the file that a process joins it by, or skips the test.
func makeGroup(t testing.TB, what string, limits ...limit) string {
	for _, l := range limits {
		dir, err := os.MkdirTemp(l.root, "layerpipe-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		if os.WriteFile(filepath.Join(dir, l.file), []byte(l.value), 0) == nil {
			return filepath.Join(dir, "cgroup.procs")
		}
	}
	t.Skip("no control group that limits " + what + " can be made here")
	return ""
}

// joinGroup moves this process to the group of that file.
func joinGroup(t *testing.T, file string) { require.NoError(t, os.WriteFile(file, []byte("0"), 0)) }
