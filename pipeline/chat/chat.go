package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// ErrTemplate reports a template that cannot be rendered: it is no Jinja, or
// uses what is not supported. The message names the line.
var ErrTemplate = errors.New("chat template")

// ErrLimit is an [ErrTemplate] of a template that does too much.
var ErrLimit = fmt.Errorf("%w: limit exceeded", ErrTemplate)

// A RaisedError is what a template says about a conversation that it does not
// take, such as one in which two messages of the user follow each other.
type RaisedError struct{ Message string }

// Error implements error.
func (e *RaisedError) Error() string {
	return "the chat template refuses the conversation: " + e.Message
}

// A Message is one message of a conversation.
type Message struct {
	Role    string `json:"role"` // "system", "user", "assistant"; some templates know more
	Content string `json:"content"`
}

// Tokens are the texts of the tokens that templates name.
type Tokens struct{ BOS, EOS string }

// Options say how to render.
type Options struct {
	// Answer ends the prompt where the assistant begins to answer.
	Answer bool
	// Tools, if not nil, describes the functions that the model may call: a JSON
	// array as in OpenAI's interface.
	Tools json.RawMessage
	// Now is the date for templates that name it; the zero value is the present.
	Now time.Time
}

// A Template renders conversations. It does not change after [New] and may be
// used by several goroutines at once.
type Template struct {
	compiled *jinja.Template
	texts    []string
	tokens   Tokens
	size     int
}

// maxSource bounds a template; the largest published one has 17 KB.
const maxSource = 64 << 10

// New compiles a template. The error is an [ErrTemplate] that names the line.
func New(source string, t Tokens) (*Template, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTemplate, len(source), maxSource)
	}
	tags, texts, err := scan(source)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	guarded, err := guard(tags)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	compiled, err := jinja.Compile(guarded)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrTemplate, strings.TrimPrefix(err.Error(), "jinja parse: "))
	}
	return &Template{compiled: compiled, texts: texts, tokens: t, size: len(source)}, nil
}

// Render returns the prompt for a conversation. A conversation that the template
// does not take is a [RaisedError]; other errors are [ErrTemplate].
func (t *Template) Render(messages []Message, o Options) (prompt string, err error) {
	list, size := make([]jinja.Value, len(messages)), t.size+len(o.Tools)
	for i, m := range messages {
		d := jinja.NewDict()
		d.AsDict().Set("role", jinja.NewString(m.Role))
		d.AsDict().Set("content", jinja.NewString(m.Content))
		list[i] = d
		size += len(m.Role) + len(m.Content)
	}
	tools := jinja.None()
	if o.Tools != nil {
		if tools, err = fromJSON(o.Tools); err != nil {
			return "", fmt.Errorf("tools: %w", err)
		}
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	r := newRun(t.texts, size, o.Now)
	data := r.functions()
	data["messages"] = jinja.NewList(list)
	data["tools"] = tools
	data["documents"] = jinja.None()
	data["add_generation_prompt"] = jinja.NewBool(o.Answer)
	data["bos_token"] = jinja.NewString(t.tokens.BOS)
	data["eos_token"] = jinja.NewString(t.tokens.EOS)
	defer func() { // the evaluator panics on arguments of a wrong type
		if p := recover(); p != nil {
			prompt, err = "", fmt.Errorf("%w: line %d: %v", ErrTemplate, r.line, p)
		}
	}()
	prompt, err = t.compiled.RenderValues(data)
	var raised *RaisedError
	switch {
	case err == nil:
		return prompt, nil
	case errors.As(err, &raised):
		return "", raised
	case errors.Is(err, ErrLimit):
		return "", fmt.Errorf("%w, at line %d", err, r.line)
	default:
		return "", fmt.Errorf("%w: line %d: %w", ErrTemplate, r.line, err)
	}
}
