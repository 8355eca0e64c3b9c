package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/layerpipe/layerpipe/compute/vec"
	"github.com/layerpipe/layerpipe/model/tokenizer"
	"github.com/layerpipe/layerpipe/pipeline"
)

// perplexityCommand is the state of pipectl perplexity.
type perplexityCommand struct {
	engine                engineFlags
	file                  string
	stride, chunks, batch int // 0: not given
	progress              progressFlag
	json                  bool

	stdout, stderr io.Writer
}

// A perplexityReport is what pipectl perplexity --json writes.
type perplexityReport struct {
	Model      string  `json:"model"`
	Perplexity float64 `json:"perplexity"` // exp of the mean negative log-likelihood
	Error      float64 `json:"error"`      // its standard error
	Tokens     int     `json:"tokens"`     // of the whole text
	Scored     int     `json:"scored"`     // that the mean is over
	Chunks     int     `json:"chunks"`
	Context    int     `json:"context"` // tokens of a chunk
	Stride     int     `json:"stride"`  // from a chunk to the next
	Passes     int64   `json:"passes"`  // trips through the model's file
	BytesRead  int64   `json:"bytes_read"`
	Seconds    float64 `json:"seconds"`
}

const (
	defaultChunk = 512 // tokens, as in llama.cpp
	// batchTokens is how many tokens a pass takes unless --batch says otherwise.
	batchTokens = 2048
)

func newPerplexity() *cobra.Command {
	p := &perplexityCommand{}
	cmd := &cobra.Command{
		Use:   "perplexity -f FILE",
		Short: "Measure how well a model predicts a text",
		Long: `Perplexity measures how well a model predicts a text: e to the power of the mean
surprise at a token, in nats. Lower is better; figures compare between models
with the same vocabulary, on the same text, in chunks of the same size.

The text is cut into chunks of --ctx tokens, each of which begins with the token
that starts a text, if the model wants one. The second half of each is scored, as
llama.cpp does it. With --stride N chunks overlap: one begins every N tokens, and
its last N are scored. Several chunks go through the model's file in one pass.

The figure is the same to the last bit for every --batch and --memory: with less
memory fewer chunks share a pass, and chunks take several.`,
		Example: `  pipectl perplexity -m model.gguf -f wiki.test.raw
  pipectl perplexity -m model.gguf -f wiki.test.raw --ctx 2048 --stride 512 --chunks 20 --json`,
		Args: noArgs("give the text's file with -f"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.stdout, p.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return p.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&p.file, "file", "f", "", "`FILE` with the text (default standard input)")
	addParsed(flags, &p.stride, "stride", "", "begin a chunk every `N` tokens, and score its last N (default chunks side by side, of which the second half is scored)", atLeast(1))
	addParsed(flags, &p.chunks, "chunks", "", "take the first `N` chunks (default all)", atLeast(1))
	addParsed(flags, &p.batch, "batch", "", "compute at most `N` chunks in one pass (default as many as make 2048 tokens)", atLeast(1))
	p.engine.add(cmd)
	flags.Lookup("ctx").Usage = "`N` tokens make a chunk (default 512)"
	p.progress.add(cmd)
	flags.BoolVar(&p.json, "json", false, "write the result as a JSON object")
	return cmd
}

func (p *perplexityCommand) run(cmd *cobra.Command) error {
	if p.engine.context == 0 {
		p.engine.context = defaultChunk
	}
	chunk := p.engine.context
	switch {
	case chunk < 4:
		return usagef("--ctx %d: a chunk has 4 tokens at least", chunk)
	case p.stride >= chunk:
		return usagef("--stride %d: must be less than a chunk of %d", p.stride, chunk)
	}
	m := &measurement{perplexityCommand: p, chunk: chunk, first: chunk / 2}
	if p.stride > 0 {
		m.first = chunk - p.stride - 1
	}
	if err := m.cut(cmd); err != nil {
		return err
	}
	batch := p.batch
	if batch == 0 {
		batch = max(1, batchTokens/chunk)
	}
	batch = min(batch, len(m.starts))
	// The plan is made with what the process takes now: not with garbage.
	debug.FreeOSMemory()
	return p.engine.use(func(e *pipeline.Engine) error {
		if err := e.Model().CheckTokens(m.vocabulary); err != nil {
			return fmt.Errorf("%s: %w", p.engine.model.name(), err)
		}
		m.engine = e
		return m.run(cmd.Context())
	}, pipeline.WithoutTokenizer(), pipeline.WithSessions(batch), pipeline.WithLogits(batch*m.rows()))
}

func (p *perplexityCommand) read(cmd *cobra.Command) (string, error) {
	if p.file != "" {
		f, err := open(cmd.Context(), p.file, os.O_RDONLY)
		if err != nil {
			return "", err
		}
		defer f.Close()
		return readAll(cmd.Context(), p.file, f, maxText)
	}
	if isTerminal(cmd.InOrStdin()) {
		return "", usageError{hintedError{errors.New("no text"), "name a file with -f, or redirect standard input"}}
	}
	return readAll(cmd.Context(), "standard input", cmd.InOrStdin(), maxText)
}

// A measurement is one run.
type measurement struct {
	*perplexityCommand
	engine     *pipeline.Engine
	chunk      int
	tokens     []int32 // of all chunks
	total      int     // tokens of the text
	vocabulary int
	starts     []int // where chunks begin in tokens
	first      int   // token of a chunk whose successor is the first that is scored
	bos        int32 // what every chunk begins with, or -1

	scored       int
	sum, squares float64 // of the surprises
}

func (m *measurement) run(ctx context.Context) error {
	start := time.Now()
	done, err := m.measure(ctx)
	if err != nil {
		if done > 0 {
			fmt.Fprintf(m.stderr, "after %s: perplexity %.4f\n", counted(done, "chunk"), m.perplexity())
		}
		return err
	}
	stats := m.engine.Stats()
	r := perplexityReport{
		Model: m.perplexityCommand.engine.model.name(), Perplexity: m.perplexity(), Error: m.deviation(), Tokens: m.total, Scored: m.scored,
		Chunks: len(m.starts), Context: m.chunk, Stride: m.step(), Passes: stats.Passes, BytesRead: stats.BytesRead, Seconds: time.Since(start).Seconds(),
	}
	if m.json {
		return writeJSON(m.stdout, r)
	}
	_, err = fmt.Fprintf(m.stdout, "perplexity %.4f +/- %.4f, over %d tokens in %d chunks of %d\n", r.Perplexity, r.Error, r.Scored, r.Chunks, r.Context)
	fmt.Fprintf(m.stderr, "%s, %s, %s read\n", duration(r.Seconds), counted(r.Passes, "pass"), size(r.BytesRead))
	return err
}

// step is how far a chunk begins behind the one before.
func (m *measurement) step() int {
	if m.stride > 0 {
		return m.stride
	}
	return m.chunk
}

// cut makes chunks of the text, before there is an engine: its plan must know
// what they take.
func (m *measurement) cut(cmd *cobra.Command) error {
	text, err := m.read(cmd)
	if err != nil {
		return err
	}
	tok, err := m.perplexityCommand.engine.model.tokenizer()
	if err != nil {
		return withHint(err, openHints)
	}
	if m.tokens, err = encode(cmd.Context(), tok, text, tokenizer.Options{AddSpecial: true}); err != nil {
		return err
	}
	m.bos = -1
	if id, ok := tok.BOS(); ok && len(m.tokens) > 0 && m.tokens[0] == id {
		m.bos = id
	}
	for at := 0; at+m.chunk <= len(m.tokens) && (m.chunks == 0 || len(m.starts) < m.chunks); at += m.step() {
		m.starts = append(m.starts, at)
	}
	if len(m.starts) == 0 {
		return hintedError{fmt.Errorf("a text of %d tokens makes no chunk of %d", len(m.tokens), m.chunk), "take a longer text, or lower --ctx"}
	}
	m.total, m.vocabulary = len(m.tokens), tok.Size()
	m.tokens = slices.Clone(m.tokens[:m.starts[len(m.starts)-1]+m.chunk]) // what --chunks leaves out need not stay
	return nil
}

// rows is how many tokens of a chunk are scored. Nothing is behind the last one.
func (m *measurement) rows() int { return m.chunk - 1 - m.first }

// measure computes all chunks and scores them. done is how many it has.
func (m *measurement) measure(ctx context.Context) (done int, err error) {
	plan := m.engine.Plan()
	sessions := make([]*pipeline.Session, min(plan.Sessions, plan.Logits, len(m.starts)))
	for i := range sessions {
		if sessions[i], err = m.engine.NewSession(m.chunk); err != nil {
			return 0, err
		}
		defer sessions[i].Close()
	}
	progress := m.progress.start(m.stderr)
	defer progress.end()
	show := progress.phase(phasePerplexity, "tokens")
	each := m.chunk - 1 // nothing is behind the last token of a chunk
	for done < len(m.starts) {
		now := sessions[:min(len(sessions), len(m.starts)-done)]
		surprises, err := m.pass(ctx, now, m.starts[done:], func(tokens int) { show(int64(done*each+tokens), int64(len(m.starts)*each)) })
		if err != nil {
			return done, err
		}
		for _, chunk := range surprises {
			for _, s := range chunk { // in the order of the text, whatever shared a pass
				m.sum += s
				m.squares += float64(s * s)
				m.scored++
			}
		}
		done += len(now)
		progress.tell(fmt.Sprintf("perplexity %.4f after %d of %d chunks", m.perplexity(), done, len(m.starts)))
		show(int64(done*each), int64(len(m.starts)*each))
	}
	return done, nil
}

// pass computes the chunks that begin at starts, one in each session, and returns
// the surprises at the tokens that are scored. Where the plan has no room for the
// logits of all, the last tokens go in parts. show is told how many tokens are
// computed.
func (m *measurement) pass(ctx context.Context, sessions []*pipeline.Session, starts []int, show func(tokens int)) ([][]float64, error) {
	vocab := m.engine.Model().Vocab
	part := min(m.rows(), m.engine.Plan().Logits/len(sessions))
	feeds, chunks := make([]pipeline.Feed, len(sessions)), make([][]int32, len(sessions))
	for i, s := range sessions {
		s.Truncate(0)
		chunks[i] = slices.Clone(m.tokens[starts[i]:][:m.chunk])
		if m.bos >= 0 {
			chunks[i][0] = m.bos
		}
	}
	surprises := make([][]float64, len(sessions))
	for fed, rows := 0, 0; rows < m.rows(); rows += part {
		part = min(part, m.rows()-rows)
		to := m.first + rows + part
		for i, s := range sessions {
			feeds[i] = pipeline.Feed{Session: s, Tokens: chunks[i][fed:to], Logits: part}
		}
		sessions[0].Progress = func(done, blocks int) { show(len(sessions) * (fed + (to-fed)*done/blocks)) }
		logits, err := m.engine.Feed(ctx, feeds...)
		if err != nil {
			return nil, err
		}
		for i := range logits {
			for row := range part {
				surprises[i] = append(surprises[i], surprise(logits[i][row*vocab:][:vocab], chunks[i][to-part+row+1]))
			}
		}
		fed = to
	}
	return surprises, nil
}

// surprise is the negative logarithm of a token's probability, the same bits on
// every machine.
func surprise(logits []float32, token int32) float64 {
	most := logits[vec.ArgMax(logits)]
	var sum float64
	for _, l := range logits {
		sum += vec.Exp64(float64(l) - float64(most))
	}
	return vec.Log64(sum) + float64(most) - float64(logits[token])
}

func (m *measurement) perplexity() float64 { return math.Exp(m.sum / float64(m.scored)) }

// deviation is the standard error of the perplexity.
func (m *measurement) deviation() float64 {
	n := float64(m.scored)
	mean := m.sum / n
	variance := m.squares/n - mean*mean
	if n < 2 || variance <= 0 {
		return 0
	}
	return m.perplexity() * math.Sqrt(variance/(n-1))
}
