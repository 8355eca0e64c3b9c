package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/pipeline/chat"
)

// storyTemplate makes of a conversation one story, which the demo model can
// continue.
func storyTemplate(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "story.jinja")
	require.NoError(t, os.WriteFile(path, []byte("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"), 0o600))
	return path
}

// A turn after an answer has the logits of the whole text, and its greedy
// continuation; what was computed before is not computed again.
func TestChat(t *testing.T) {
	emptyTemp(t)
	story := []string{"--chat-template", storyTemplate(t), "--temp", "0", "-n", "8"}
	first := " there was a cheerful child named Max."
	o := pipectl(t, "Once upon a time\n\n One day\n/stats\n", append([]string{"chat"}, story...)...)
	require.Equal(t, exitOK, o.code, o.stderr)
	second := succeed(t, "", "run", "--temp", "0", "-n", "8", "-p", "Once upon a time"+first+" One day")
	require.Equal(t, first+"\n"+second+"\n", o.stdout)
	require.Contains(t, o.stderr, "as many tokens as -n allows\n")
	require.Contains(t, o.stderr, "context     22 of 512 tokens\n")
	require.Contains(t, o.stderr, "generated   8 tokens")
}

func TestChatCommands(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "saved.json")
	script := strings.Join([]string{
		"/help", "//slash", "/system Be brief", "/save " + path,
		"two\\", "lines", `"""`, "a", "", `b\`, `"""`, `"""one"""`, `"""c`, `d"""`, "/save " + path, "/reset", "/system",
		"last", "/save " + filepath.Join(dir, "last.json"), "/exit", "never",
	}, "\n")
	o := pipectl(t, script, "chat", "--chat-template", storyTemplate(t), "--temp", "0", "-n", "1", "--system", "Once")
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Contains(t, o.stderr, "/reset ")
	require.Contains(t, o.stderr, "3 messages in "+path)
	var said, last []chat.Message
	readMessages(t, path, &said)
	require.Equal(t, chat.Message{Role: "system", Content: "Be brief"}, said[0])
	for i, want := range []string{"/slash", "two\nlines", "a\n\nb\\", "one", "c\nd"} {
		require.Equal(t, chat.Message{Role: "user", Content: want}, said[1+2*i])
		require.Equal(t, "assistant", said[2+2*i].Role)
	}
	require.Len(t, said, 11)
	readMessages(t, filepath.Join(dir, "last.json"), &last)
	require.Len(t, last, 2)
	require.Equal(t, "last", last[0].Content)
}

func readMessages(t *testing.T, path string, v *[]chat.Message) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	decodeJSON(t, `{"messages":`+string(data)+`}`, &struct{ Messages *[]chat.Message }{v})
}

func TestChatFails(t *testing.T) {
	emptyTemp(t)
	dir := t.TempDir()
	write := func(name, source string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(source), 0o600))
		return path
	}
	story := storyTemplate(t)
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		want  []string
	}{
		"no template":           {"x\n", nil, []string{"no chat template", "--chat-template: a file, or one of chatml"}},
		"no such file":          {"x\n", []string{"--chat-template", "absent"}, []string{"absent", "one of chatml"}},
		"no Jinja":              {"x\n", []string{"--chat-template", write("bad", "\n{{ x")}, []string{"line 2: ", "one of chatml"}},
		"fails when it is used": {"x\n", []string{"--chat-template", write("late", "\n\n{{ x() }}")}, []string{"line 3: ", "one of chatml"}},
		"refuses":               {"x\n", []string{"--chat-template", write("no", "{{ raise_exception('not so') }}")}, []string{"not so", "one of chatml"}},
		"unknown command":       {"/nonsense\n", []string{"--chat-template", story}, []string{"/nonsense", "/help"}},
		"save nowhere":          {"/save\n", []string{"--chat-template", story}, []string{"/save FILE"}},
		"save to no directory":  {"/save " + filepath.Join(dir, "no", "file") + "\n", []string{"--chat-template", story}, []string{"no"}},
		"too long":              {strings.Repeat("word ", 100) + "\n", []string{"--chat-template", story, "--ctx", "16"}, []string{"context of 16", "raise --ctx", "/reset"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := pipectl(t, tc.stdin, append([]string{"chat"}, tc.args...)...)
			require.Equal(t, exitFailed, o.code, o.stderr)
			require.Empty(t, o.stdout)
			require.Contains(t, o.stderr, "\nhint: ")
			for _, want := range tc.want {
				require.Contains(t, o.stderr, want)
			}
		})
	}
	require.Empty(t, succeed(t, "", "chat", "--chat-template", story), "nobody says anything")
}

// What is typed is no control token, and the model's own template is used if it
// has one.
func TestRunChat(t *testing.T) {
	emptyTemp(t)
	report := func(args ...string) (r runReport) {
		decodeJSON(t, succeed(t, "", append([]string{"run", "--temp", "0", "-n", "4", "--json"}, args...)...), &r)
		return r
	}
	story := storyTemplate(t)
	plain := report("-p", "Once upon")
	require.Equal(t, plain.LogitsSHA256, report("--chat", "--chat-template", story, "-p", "Once upon").LogitsSHA256)
	require.Equal(t, plain.LogitsSHA256, report("--chat", "--chat-template", story, "--system", "Once", "-p", " upon").LogitsSHA256)
	typed := report("--chat", "--chat-template", story, "-p", "a</s>b")
	require.Equal(t, report("-p", "a</s>b").LogitsSHA256, typed.LogitsSHA256)

	own := templatedDemo(t, "{{ bos_token }}Once {{ messages[-1].content }}")
	require.Equal(t, plain.LogitsSHA256, report("-m", own, "--chat", "-p", "upon").LogitsSHA256)
	require.NotEqual(t, plain.LogitsSHA256, report("-m", own, "--chat", "--chat-template", "chatml", "-p", "upon").LogitsSHA256)

	o := pipectl(t, "", "run", "-p", "x", "--system", "y")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "--chat")
}

// templatedDemo is the demo model with a chat template.
func templatedDemo(t *testing.T, source string) string {
	t.Helper()
	f, err := gguf.Open(demoModel)
	require.NoError(t, err)
	f.Metadata.Set(templateKey, source)
	var specs []gguf.TensorSpec
	for _, tensor := range f.Tensors {
		specs = append(specs, gguf.TensorSpec{Name: tensor.Name, Type: tensor.Type, Dims: tensor.Dims})
	}
	data, err := os.ReadFile(demoModel)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "templated.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	defer out.Close()
	w, err := gguf.NewWriter(out, f.Metadata, specs)
	require.NoError(t, err)
	for _, tensor := range f.Tensors {
		require.NoError(t, w.WriteTensor(tensor.Name, func(to io.Writer) error {
			_, err := to.Write(data[tensor.Offset:][:tensor.Size])
			return err
		}))
	}
	require.NoError(t, w.Close())
	return path
}

func TestSamplingFlags(t *testing.T) {
	emptyTemp(t)
	text := func(args ...string) string {
		return succeed(t, "", append([]string{"run", "-n", "8", "--temp", "0"}, args...)...)
	}
	require.Equal(t, " there was a", text("--stop", " cheerful", "--stop", " Max"))
	ids := strings.Fields(succeed(t, "", "tokenize", "--no-special", "there"))
	require.NotContains(t, text("--logit-bias", ids[0]+"=-inf"), "there was")
	for _, flag := range []string{"--typical", "--mirostat", "--frequency-penalty", "--presence-penalty", "--repeat-window", "--mirostat-rate"} {
		require.Contains(t, succeed(t, "", "run", "-h"), flag)
		require.Contains(t, succeed(t, "", "chat", "-h"), flag)
		require.Equal(t, exitUsage, pipectl(t, "", "run", flag, "-101").code, flag)
	}
	for _, bad := range []string{"1", "x=1", "1=x", "-1=1", "1=nan"} {
		require.Equal(t, exitUsage, pipectl(t, "", "run", "--logit-bias", bad).code, bad)
	}
	require.Equal(t, exitUsage, pipectl(t, "", "run", "--stop", "").code)
}
