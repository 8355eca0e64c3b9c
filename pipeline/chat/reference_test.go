package chat_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/pipeline/chat"
)

// references is the directory with the templates of published models, and what
// the original Jinja makes of them.
func references(t *testing.T) string {
	root := os.Getenv("LAYERPIPE_REFS")
	if root == "" {
		root = "../../../shared/refs"
	}
	dir := filepath.Join(root, "templates")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no reference templates: ", err)
	}
	return dir
}

func readJSON(t *testing.T, path string, v any) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, v))
}

// differ lists the cases beside the core whose text is not that of Jinja, and
// why.
var differ = map[string]string{
	"MiroThinker.jinja multi":  "Jinja refuses to set a key of what is no namespace",
	"MiroThinker.jinja closed": "Jinja refuses to set a key of what is no namespace",
	"MiroThinker.jinja tools":  "Jinja refuses a name that is not defined",
}

func TestReferences(t *testing.T) {
	dir := references(t)
	var index struct {
		Now     string
		Renders []struct {
			Template, Case, Expected, Error string
			Core                            bool
			BOS                             string `json:"bos_token"`
			EOS                             string `json:"eos_token"`
		}
	}
	readJSON(t, filepath.Join(dir, "index.json"), &index)
	var cases map[string]struct {
		Messages []chat.Message
		Answer   bool `json:"add_generation_prompt"`
		Tools    json.RawMessage
	}
	readJSON(t, filepath.Join(dir, "cases.json"), &cases)
	now, err := time.Parse("2006-01-02T15:04:05", index.Now)
	require.NoError(t, err)

	equal, core, others := 0, 0, 0
	for _, r := range index.Renders {
		if r.Expected == "" && r.Error == "" {
			continue // Jinja fails itself
		}
		source, err := os.ReadFile(filepath.Join(dir, r.Template))
		require.NoError(t, err)
		c := cases[r.Case]
		var got string
		template, err := chat.New(string(source), chat.Tokens{BOS: r.BOS, EOS: r.EOS})
		if err == nil {
			got, err = template.Render(c.Messages, chat.Options{Answer: c.Answer, Tools: c.Tools, Now: now})
		}
		same := false
		want := r.Error
		if r.Expected != "" {
			data, readErr := os.ReadFile(filepath.Join(dir, r.Expected))
			require.NoError(t, readErr)
			want = string(data)
			same = err == nil && want == got
		} else {
			var raised *chat.RaisedError
			same = errors.As(err, &raised) && raised.Message == r.Error
		}
		name := r.Template + " " + r.Case
		if r.Core {
			core++
			require.True(t, same, "%s: %v\n--- want\n%s\n--- got\n%s", name, err, want, got)
			continue
		}
		others++
		if same {
			equal++
		}
		if reason, ok := differ[name]; ok == same {
			t.Errorf("%s: equal %v, and the list of differences says %q: %v\n--- want\n%s\n--- got\n%s", name, same, reason, err, want, got)
		}
	}
	require.Equal(t, 20, core)
	t.Logf("core: %d of %d; others: %d of %d", core, core, equal, others)
}
