package pipeline

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// machine makes a directory with the files that availableMemory reads.
func machine(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

func TestAvailableMemory(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	base := map[string]string{
		"proc/meminfo":     "MemTotal:       8000000 kB\nMemAvailable:   1000000 kB\n",
		"proc/self/status": "VmRSS:\t      90 kB\nRssAnon:\t      40 kB\nRssFile:\t 50 kB\n",
	}
	with := func(more map[string]string) map[string]string {
		all := map[string]string{}
		for k, v := range base {
			all[k] = v
		}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	for _, tc := range []struct {
		name   string
		files  map[string]string
		want   int64
		source string
	}{
		{"no groups", base, 1000000*kib + 40*kib, "machine"},
		{"version 2, its own limit, page cache is not used memory", with(map[string]string{
			"proc/self/cgroup":                 "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max":     strconv.Itoa(500 * mib),
			"sys/fs/cgroup/a/b/memory.current": strconv.Itoa(300 * mib),
			"sys/fs/cgroup/a/b/memory.stat":    "anon 1\ninactive_file 104857600\nactive_file 104857600\n",
			"sys/fs/cgroup/a/memory.max":       "max\n",
		}), 400*mib + 40*kib, "/a/b"},
		{"version 2, the limit of a group above", with(map[string]string{
			"proc/self/cgroup":               "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max":   strconv.Itoa(500 * mib),
			"sys/fs/cgroup/a/memory.max":     strconv.Itoa(200 * mib),
			"sys/fs/cgroup/a/memory.current": strconv.Itoa(50 * mib),
		}), 150*mib + 40*kib, "/a"},
		{"version 1", with(map[string]string{
			"proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": strconv.Itoa(100 * mib),
			"sys/fs/cgroup/memory/x/memory.usage_in_bytes": strconv.Itoa(90 * mib),
			"sys/fs/cgroup/memory/x/memory.stat":           "cache 1\ntotal_inactive_file 10485760\ntotal_active_file 0\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
		}), 20*mib + 40*kib, "/x"},
		{"a group that is full", with(map[string]string{
			"proc/self/cgroup":               "0::/a\n",
			"sys/fs/cgroup/a/memory.max":     strconv.Itoa(100 * mib),
			"sys/fs/cgroup/a/memory.current": strconv.Itoa(101 * mib),
		}), 40 * kib, "/a"},
		{"limits above the free memory", with(map[string]string{
			"proc/self/cgroup":           "0::/a\n",
			"sys/fs/cgroup/a/memory.max": strconv.Itoa(1 << 40),
		}), 1000000*kib + 40*kib, "machine"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := availableMemory(machine(t, tc.files))
			require.True(t, a.known)
			require.Equal(t, tc.want, a.bytes)
			require.Contains(t, a.source, tc.source)
			_, limited := tc.files["proc/self/cgroup"]
			require.Equal(t, limited, a.group != "")
		})
	}
	require.False(t, availableMemory(t.TempDir()).known)
	a := availableMemory("/")
	require.True(t, a.known)
	require.Positive(t, a.bytes)
}

// A control group's limit holds, whatever was asked for: the kernel would end the
// process.
func TestPlanWithinControlGroup(t *testing.T) {
	root := machine(t, map[string]string{
		"proc/meminfo":               "MemAvailable: 8000000 kB\n",
		"proc/self/status":           "RssAnon: 0 kB\n",
		"proc/self/cgroup":           "0::/a\n",
		"sys/fs/cgroup/a/memory.max": strconv.Itoa(1 << 30),
	})
	plan := func(m Memory) (*Plan, error) {
		c, err := newConfig([]Option{WithThreads(2), WithContext(512), WithMemory(m)})
		require.NoError(t, err)
		md := largeModel(t)
		c.setContext(md)
		p, err := newPlanner(md, c, processBytes)
		require.NoError(t, err)
		if err := p.limits(root); err != nil {
			return nil, err
		}
		return p.decide()
	}
	for _, asked := range []Memory{MemoryBytes(2 << 30), {share: 0.9}} {
		p, err := plan(asked)
		require.NoError(t, err)
		require.EqualValues(t, 1<<30, p.Ceiling)
		require.LessOrEqual(t, p.Total, p.Ceiling)
		require.Contains(t, p.Source, "control group /a")
		require.Contains(t, p.Warning, "are more than the limit of control group /a leaves")
	}
	p, err := plan(MemoryBytes(1<<30 + 1<<20)) // too little to speak of
	require.NoError(t, err)
	require.EqualValues(t, 1<<30, p.Ceiling)
	require.Empty(t, p.Warning)

	// Also where the machine itself has less free.
	require.NoError(t, os.WriteFile(filepath.Join(root, "proc/meminfo"), []byte("MemAvailable: 900000 kB\n"), 0o666))
	p, err = plan(MemoryBytes(2 << 30))
	require.NoError(t, err)
	require.EqualValues(t, 1<<30, p.Ceiling)
	_, err = plan(MemoryBytes(100 << 20))
	require.ErrorContains(t, err, "as asked for")

	require.NoError(t, os.WriteFile(filepath.Join(root, "sys/fs/cgroup/a/memory.max"), []byte("100000000"), 0o666))
	_, err = plan(MemoryBytes(2 << 30))
	require.ErrorIs(t, err, ErrMemory)
	require.ErrorContains(t, err, "control group /a")
}
