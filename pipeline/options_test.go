package pipeline_test

import (
	"context"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/pipeline/sample"
)

func TestOptionsRefused(t *testing.T) {
	for _, tc := range []struct {
		option pipeline.Option
		want   string
	}{
		{pipeline.WithBuffers(0), "buffers 0"},
		{pipeline.WithBuffers(math.MaxInt), "must be at most 65536"},
		{pipeline.WithThreads(-1), "threads -1"},
		{pipeline.WithContext(0), "context 0"},
		{pipeline.WithContextFor(0), "context 0"},
		{pipeline.WithContextForPrompt("Once", 0), "context 0"},
		{pipeline.WithPinned(-1), "pinned blocks -1"},
		{pipeline.WithKV("f8"), `"f8"`},
		{pipeline.WithMemory(pipeline.MemoryBytes(-1)), "memory: must be more than 0"},
		{pipeline.WithMemory(pipeline.MemoryBytes(0)), "memory: must be more than 0"},
		{pipeline.WithProbe(ioactor.ProbeResult{}), "probe: 0 bytes a second"},
		{pipeline.WithProbe(ioactor.ProbeResult{BytesPerSecond: math.Inf(1)}), "probe: +Inf bytes"},
	} {
		_, err := pipeline.Open(demo, tc.option)
		require.ErrorContains(t, err, tc.want)
	}
	_, err := pipeline.ParseBackend("tape")
	require.ErrorContains(t, err, `"tape": not one of pread, direct, mmap, view`)
}

func TestContextFor(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options []pipeline.Option
		want    int
	}{
		{"positions", []pipeline.Option{pipeline.WithContextFor(7)}, 7},
		{"a prompt of 5 tokens", []pipeline.Option{pipeline.WithContextForPrompt("Once upon a time", 7)}, 12},
		{"an empty prompt, which is a token", []pipeline.Option{pipeline.WithContextForPrompt("", 1)}, 2},
		{"more than the model has", []pipeline.Option{pipeline.WithContextForPrompt("Once", math.MaxInt)}, 512},
		{"the last one", []pipeline.Option{pipeline.WithContextForPrompt("Once", 7), pipeline.WithContextFor(7)}, 7},
		{"a context that is asked for", []pipeline.Option{pipeline.WithContext(9), pipeline.WithContextForPrompt("Once", 7)}, 9},
	} {
		plan, err := pipeline.PlanFor(t.Context(), demo, tc.options...)
		require.NoError(t, err, tc.name)
		require.Equal(t, tc.want, plan.Context, tc.name)
	}
	_, err := pipeline.PlanFor(t.Context(), demo, pipeline.WithContextForPrompt("Once", 7), pipeline.WithoutTokenizer())
	require.ErrorIs(t, err, pipeline.ErrNoTokenizer)
}

func TestOpenRefused(t *testing.T) {
	_, err := pipeline.Open("/no/such/model.gguf")
	require.ErrorContains(t, err, "/no/such/model.gguf")
	_, err = pipeline.Open("options_test.go")
	require.ErrorContains(t, err, "options_test.go")
}

func TestGenerateEnds(t *testing.T) {
	e, err := pipeline.Open(demo, pipeline.WithContext(20))
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	generate := func(c pipeline.GenConfig) (pipeline.GenStats, error) {
		var stats pipeline.GenStats
		c.Stats = &stats
		var last error
		text := ""
		for tok, err := range e.Generate(t.Context(), c) {
			last = err
			text += tok.Text
		}
		require.Equal(t, text, stats.Text)
		return stats, last
	}
	prompt := "Once upon a time"

	st, err := generate(pipeline.GenConfig{Prompt: prompt, MaxTokens: 3})
	require.NoError(t, err)
	require.Equal(t, "length", st.StopReason)
	require.Equal(t, 3, st.GeneratedTokens)
	require.EqualValues(t, 3, st.Passes, "the prompt in one pass, and the last token is not computed")

	st, err = generate(pipeline.GenConfig{Prompt: prompt})
	require.NoError(t, err)
	require.Equal(t, "context", st.StopReason)
	require.Equal(t, 20, st.PromptTokens+st.GeneratedTokens-1, "every position is used")

	st, err = generate(pipeline.GenConfig{Tokens: make([]int32, 21)})
	require.ErrorIs(t, err, compute.ErrFull)
	require.ErrorContains(t, err, "21 tokens in a context of 20")
	require.Equal(t, "error", st.StopReason)

	_, err = generate(pipeline.GenConfig{Tokens: []int32{1, 1024}})
	require.ErrorContains(t, err, "token 1024")

	_, err = generate(pipeline.GenConfig{Prompt: prompt, Sampling: sample.Config{Bias: map[int32]float32{1024: 1}}})
	require.ErrorContains(t, err, "bias of token 1024")

	_, err = generate(pipeline.GenConfig{Prompt: prompt, Sampling: sample.Config{Temperature: -1}})
	require.ErrorContains(t, err, "temperature -1")
}

// The same seed gives the same text, another one another.
func TestSeed(t *testing.T) {
	e, err := pipeline.Open(demo)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	text := func(seed uint64) string {
		var stats pipeline.GenStats
		for _, err := range e.Generate(t.Context(), pipeline.GenConfig{
			Prompt: "Once upon a time", MaxTokens: 30, Stats: &stats,
			Sampling: sample.Config{Temperature: 1, TopK: 40, TopP: 0.95, MinP: 0.01, RepeatPenalty: 1.1, Seed: seed},
		}) {
			require.NoError(t, err)
		}
		return stats.Text
	}
	require.Equal(t, text(1), text(1))
	require.NotEqual(t, text(1), text(2))
}

// A program that mixes up sessions gets errors.
func TestSessionMisuse(t *testing.T) {
	e, err := pipeline.Open(demo)
	require.NoError(t, err)
	other, err := pipeline.Open(demo)
	require.NoError(t, err)
	s, err := e.NewSession(10)
	require.NoError(t, err)
	one := []int32{1}

	_, err = e.NewSession(-5)
	require.ErrorContains(t, err, "-5 positions")
	_, err = other.Feed(t.Context(), pipeline.Feed{Session: s, Tokens: one})
	require.ErrorContains(t, err, "another engine")
	_, err = e.Feed(t.Context())
	require.ErrorContains(t, err, "no session")
	_, err = e.Feed(t.Context(), pipeline.Feed{Tokens: one})
	require.ErrorContains(t, err, "no session")
	_, err = s.Feed(t.Context(), one, 2)
	require.ErrorContains(t, err, "1 tokens with 2 logits")
	for config, want := range map[*pipeline.GenConfig]string{
		{Tokens: one, Session: s}:    "generate: a session of another engine",
		{Tokens: one, MaxTokens: -7}: "generate: at most -7 tokens",
	} {
		for _, err = range other.Generate(t.Context(), *config) {
			require.ErrorContains(t, err, want)
		}
		require.Error(t, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	_, err = s.Feed(ctx, one, 1)
	require.Equal(t, io.ErrClosedPipe, err, "no tensor is to blame")
	s.Truncate(-1)
	require.Zero(t, s.Len())
	s.Close()
	s.Close()
	_, err = s.Feed(t.Context(), one, 1)
	require.ErrorIs(t, err, pipeline.ErrClosed)

	require.NoError(t, other.Close())
	require.NoError(t, other.Close())
	require.NoError(t, e.Close())
	_, err = e.Feed(t.Context(), pipeline.Feed{Session: s, Tokens: one})
	require.ErrorIs(t, err, pipeline.ErrClosed)
	_, err = e.NewSession(0)
	require.ErrorIs(t, err, pipeline.ErrClosed)
}

// A plan that streams counts with what it has measured, and more memory is
// planned for with the same figures. The model is one that the floor has no room
// for: what is left there between the process and the next MiB holds the demo.
func TestPlanMeasures(t *testing.T) {
	path := synthetic(t, "8x512x1024x8x4x500", "Q8_0")
	for _, backend := range pipeline.Backends() {
		plan, err := pipeline.PlanFor(t.Context(), path, pipeline.WithMemory(pipeline.MemoryFloor()), pipeline.WithBackend(backend))
		require.NoError(t, err)
		require.Positive(t, plan.StreamedBytes)
		require.True(t, plan.Rates.Measured, backend)
		require.True(t, plan.Rates.ComputeMeasured, backend)
		require.Equal(t, backend.String() != "direct", plan.Rates.Cached, "%v", backend)
		more, err := plan.More(1 << 30)
		require.NoError(t, err)
		require.Equal(t, plan.Ceiling+1<<30, more.Ceiling)
		require.Equal(t, plan.Rates, more.Rates)
		require.Zero(t, more.StreamedBytes)
		require.Equal(t, plan.Backend, more.Backend)
		for _, bytes := range []int64{-1, math.MaxInt64} {
			_, err = plan.More(bytes)
			require.ErrorContains(t, err, "bytes more")
		}

		// A probe that was made before is for direct reads alone.
		const slow = 12345
		plan, err = pipeline.PlanFor(t.Context(), path, pipeline.WithMemory(pipeline.MemoryFloor()), pipeline.WithBackend(backend),
			pipeline.WithBuffers(3), pipeline.WithProbe(ioactor.ProbeResult{BytesPerSecond: slow, Chunk: 1 << 20, InFlight: 2}))
		require.NoError(t, err)
		require.Equal(t, backend.String() == "direct", plan.Rates.Storage == slow, "%v", backend)
		require.Equal(t, backend.String() == "direct", plan.InFlight == 2, "%v", backend)
		require.Equal(t, backend.String() == "direct", plan.Probe != nil, "%v", backend)
	}
	plan, err := pipeline.PlanFor(t.Context(), demo, pipeline.WithMemory(pipeline.MemoryBytes(1<<30)))
	require.NoError(t, err)
	require.Zero(t, plan.StreamedBytes)
	require.False(t, plan.Rates.Measured, "nothing streams, and nothing is to be measured")

	plan, err = pipeline.PlanFor(t.Context(), demo, pipeline.WithBuffers(2))
	require.NoError(t, err)
	_, err = plan.More(1 << 30)
	require.ErrorContains(t, err, "no ceiling")
}
