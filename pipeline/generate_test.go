package pipeline_test

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/pipeline"
)

// collect generates and returns the pieces of text as they were yielded.
func collect(t *testing.T, e *pipeline.Engine, c pipeline.GenConfig) (pieces []string, stats pipeline.GenStats) {
	t.Helper()
	c.Stats = &stats
	for token, err := range e.Generate(t.Context(), c) {
		require.NoError(t, err)
		pieces = append(pieces, token.Text)
	}
	require.Equal(t, stats.Text, strings.Join(pieces, ""))
	return pieces, stats
}

func TestStop(t *testing.T) {
	e, err := pipeline.Open(demo)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	const text = " there was a cheerful child named Max." // 8 tokens
	whole, _ := collect(t, e, pipeline.GenConfig{Prompt: "Once upon a time", MaxTokens: 8})
	require.Equal(t, text, strings.Join(whole, ""))
	for _, tc := range []struct {
		name, want string
		stop       []string
	}{
		{"none", text, nil},
		{"not in the text", text, []string{"dragon"}},
		{"a word", " there was a ", []string{"cheerful"}},
		{"within a token", " there was a cheerful chi", []string{"ld"}},
		{"over several tokens", " there w", []string{"as a cheerful chi"}},
		{"the earlier of two", " there", []string{"child", " was"}},
		{"the longer one begins earlier", " there", []string{"a cheerful", " was a cheerful"}},
		{"begins like the text and goes on differently", text, []string{"cheerful child called"}},
		{"one begins like the text, another comes", " there was a cheerful ", []string{"a cheerful child called", "child named Max"}},
		{"at the very start", "", []string{" there"}},
		{"the last character", strings.TrimSuffix(text, "."), []string{"."}},
		{"incomplete at the end", text, []string{". And"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pieces, stats := collect(t, e, pipeline.GenConfig{Prompt: "Once upon a time", MaxTokens: 8, Stop: tc.stop})
			require.Equal(t, tc.want, stats.Text)
			// Whatever can still become a stop string has not been shown.
			for i := range pieces {
				shown := strings.Join(pieces[:i+1], "")
				require.True(t, strings.HasPrefix(tc.want, shown))
			}
			if tc.want == text {
				require.Equal(t, "length", stats.StopReason)
			} else {
				require.Equal(t, "stop", stats.StopReason)
			}
		})
	}

	for _, err := range e.Generate(t.Context(), pipeline.GenConfig{Prompt: "x", Stop: []string{"a", ""}}) {
		require.ErrorContains(t, err, "stop string: empty")
	}
}

// A session that goes on computes only what is new, and the text is the same.
func TestGenerateInSession(t *testing.T) {
	e, err := pipeline.Open(demo)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	session, err := e.NewSession(0)
	require.NoError(t, err)
	defer session.Close()

	prompt := []int32{1, 418, 419, 973, 63, 100, 200}
	for _, tc := range []struct {
		name   string
		tokens []int32
		held   int // how many positions are kept
	}{
		{"from nothing", prompt[:4], 0},
		{"the same again", prompt[:4], 3},
		{"longer", prompt, 4},
		{"shorter", prompt[:5], 4},
		{"another end", []int32{1, 418, 7, 8}, 2},
		{"another text", []int32{5, 6}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, want := collect(t, e, pipeline.GenConfig{Tokens: tc.tokens, MaxTokens: 5})
			computed := 0
			progress := func(int, int) { computed = session.Len() } // before the prompt is computed
			_, got := collect(t, e, pipeline.GenConfig{Tokens: tc.tokens, MaxTokens: 5, Session: session, Progress: progress})
			require.Equal(t, want.LogitsSHA256, got.LogitsSHA256)
			require.Equal(t, tc.held, computed)
			require.Equal(t, len(tc.tokens)+4, session.Len(), "the last token is not computed")
		})
	}
}

// A prompt's progress counts blocks as they are computed, whatever a block is, over
// all the passes that its chunks take.
func TestProgress(t *testing.T) {
	for _, unit := range []model.Unit{model.UnitLayer, model.UnitTensor} {
		for _, memory := range []pipeline.Memory{{}, pipeline.MemoryFloor()} {
			e, err := pipeline.Open(demo, pipeline.WithUnit(unit), pipeline.WithMemory(memory), pipeline.WithContext(512))
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Close()) }()
			tokens := make([]int32, 300)
			for i := range tokens {
				tokens[i] = int32(3 + i)
			}
			blocks, layers := len(e.Model().Blocks), len(e.Model().Layers)
			passes := (len(tokens) + e.Plan().Chunk - 1) / e.Plan().Chunk
			check := func() func(done, total int) {
				last := 0
				t.Cleanup(func() { require.Equal(t, passes*blocks, last) })
				return func(done, total int) {
					require.Equal(t, passes*blocks, total)
					require.Greater(t, done, last)
					require.LessOrEqual(t, done-last, blocks/layers+1, "a layer at a time")
					last = done
				}
			}
			collect(t, e, pipeline.GenConfig{Tokens: tokens, MaxTokens: 3, Progress: check()})

			session, err := e.NewSession(0)
			require.NoError(t, err)
			defer session.Close()
			session.Progress = check()
			_, err = session.Feed(t.Context(), tokens, 1)
			require.NoError(t, err)
		}
	}
}

// Models without training make tokens that are bytes of no character: the text
// stays UTF-8.
func TestTextIsUTF8(t *testing.T) {
	models, err := filepath.Glob("../test/testdata/refs/models/*-Q*.gguf")
	require.NoError(t, err)
	replaced := 0
	for _, path := range models {
		e, err := pipeline.Open(path)
		require.NoError(t, err)
		pieces, stats := collect(t, e, pipeline.GenConfig{Tokens: []int32{1, 5, 6}, MaxTokens: 12})
		for _, piece := range pieces {
			require.True(t, utf8.ValidString(piece), "%s: %q", path, piece)
		}
		replaced += strings.Count(stats.Text, "\uFFFD")
		require.NoError(t, e.Close())
	}
	require.Positive(t, replaced, "every text was UTF-8 by itself")
}
