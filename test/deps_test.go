package test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mayImport says which parts of the module each part of the engine may import.
// A part is a directory with all below it that has no line of its own; within
// a part everything may import everything. Whoever embeds a part compiles what
// is listed here, golang.org/x/sync and golang.org/x/sys, and nothing else, but
// for the template language in pipeline/chat.
var mayImport = map[string][]string{
	"model":           {"model/gguf"},
	"model/gguf":      {},
	"model/tokenizer": {"model/gguf"},
	"stage":           {},
	"ring":            {"stage"},
	"ioactor":         {"ring", "stage"},
	"dequant":         {"ring", "stage", "model", "model/gguf"},
	// The arithmetic knows neither slots nor actors.
	"compute/team":   {},
	"compute/vec":    {"compute/team", "model", "model/gguf", "dequant"},
	"compute/kernel": {"compute/team", "compute/vec", "model", "model/gguf", "dequant"},
	"compute":        {"compute/team", "compute/vec", "compute/kernel", "dequant", "ring", "stage", "model", "model/gguf"}, // it never opens a file
	"pipeline/chat":  {"model/gguf", "model/tokenizer"},
	"pipeline":       {"compute", "compute/team", "compute/vec", "compute/kernel", "dequant", "ioactor", "ring", "stage", "model", "model/gguf", "model/tokenizer"},
}

// apart is what lies in the engine's directories and is not of the engine.
var apart = []string{"ioactor/readertest", "model/demo", "model/synth", "pipeline/metrics"}

func partOf(pkg string) string {
	for ; pkg != "."; pkg = parent(pkg) {
		if _, ok := mayImport[pkg]; ok || slices.Contains(apart, pkg) {
			return pkg
		}
	}
	return ""
}

func parent(pkg string) string {
	if i := strings.LastIndexByte(pkg, '/'); i >= 0 {
		return pkg[:i]
	}
	return "."
}

// A part imports only what lies below it.
func TestImports(t *testing.T) {
	const module = "github.com/layerpipe/layerpipe/"
	args := []string{"list", "-deps", "-f", `{{if not .Standard}}{{.ImportPath}}:{{range .Imports}} {{.}}{{end}}{{end}}`}
	for part := range mayImport {
		args = append(args, module+part+"/...")
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	require.NoError(t, err, string(out))
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		path, imports, _ := strings.Cut(strings.TrimSpace(line), ":")
		pkg, ours := strings.CutPrefix(path, module)
		part := partOf(pkg)
		if !ours || slices.Contains(apart, part) {
			continue
		}
		require.NotEmpty(t, part, "%s is no part of the engine, and the engine imports it", pkg)
		seen[part] = true
		for _, imported := range strings.Fields(imports) {
			first, _, _ := strings.Cut(imported, "/")
			switch own, ours := strings.CutPrefix(imported, module); {
			case ours:
				to := partOf(own)
				require.True(t, to == part || slices.Contains(mayImport[part], to), "%s imports %s", pkg, own)
			case strings.Contains(first, "."):
				known := strings.HasPrefix(imported, "golang.org/x/sync/") || strings.HasPrefix(imported, "golang.org/x/sys/")
				known = known || part == "pipeline/chat" && imported == "github.com/ardanlabs/jinja"
				require.True(t, known, "%s imports %s", pkg, imported)
			default:
				require.NotEqual(t, "C", imported, "%s uses cgo", pkg)
			}
		}
	}
	for part := range mayImport {
		require.True(t, seen[part], "%s has no packages", part)
	}
}
