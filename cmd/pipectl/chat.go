package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/pipeline/chat"
)

// chatCommand is the state of pipectl chat.
type chatCommand struct {
	engine   engineFlags
	generate generateFlags
	template templateFlags
	progress progressFlag

	stdout, stderr io.Writer
}

const chatHelp = `/help          show this
/reset         forget the conversation, but for the system message
/system TEXT   tell the model how to behave; without TEXT no more
/stats         show the statistics of the last answer
/save FILE     write the conversation as JSON
/exit          end, as Ctrl-D does

A line that ends with \ goes on in the next. Lines between """ and """ are one
message. A message that begins with a slash is written with two. Ctrl-C stops
an answer, or drops what is typed; twice at an empty prompt it ends the chat.
`

func newChat() *cobra.Command {
	c := &chatCommand{generate: newGenerateFlags(-1)}
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk with a model",
		Long: `Chat answers messages. The prompt is what the model's chat template makes of the
conversation; nothing in a message is taken for a control token. What has been
computed stays: a turn costs its new tokens only.

On a terminal it asks for messages. Otherwise each line of standard input is a
message, and the answers go to standard output, a line each or more. These
commands are taken in place of a message:

` + chatHelp,
		Example: `  pipectl chat -m model.gguf
  pipectl chat -m model.gguf --system "You are a pirate" --temp 0.6
  printf 'Hello\nAnd in French?\n' | pipectl chat -m model.gguf --chat-template chatml`,
		Args: noArgs("chat asks for messages; pipectl run --chat -p answers one"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.stdout, c.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return c.run(cmd)
		},
	}
	c.template.add(cmd)
	c.generate.addPredict(cmd, "-1")
	c.engine.add(cmd)
	c.engine.trace.add(cmd)
	c.progress.add(cmd)
	c.generate.addSampling(cmd)
	return cmd
}

func (c *chatCommand) run(cmd *cobra.Command) error {
	if _, err := c.engine.options(); err != nil {
		return err
	}
	if err := c.generate.check(cmd); err != nil {
		return err
	}
	return c.engine.use(func(e *pipeline.Engine) error {
		encoder, err := c.template.encoder(cmd.Context(), e)
		if err != nil {
			return err
		}
		session, err := e.NewSession(0)
		if err != nil {
			return err
		}
		defer session.Close()
		t := &talk{
			chatCommand: c, engine: e, encoder: encoder, session: session,
			lines: newLineReader(cmd.InOrStdin(), c.stderr), messages: c.template.messages(),
		}
		return t.run(cmd.Context())
	})
}

// A talk is a conversation.
type talk struct {
	*chatCommand
	engine     *pipeline.Engine
	encoder    *chat.Encoder
	session    *pipeline.Session
	lines      *lineReader
	messages   []chat.Message
	last       *runReport     // of the last answer
	interrupts chan os.Signal // Ctrl-C during an answer; nil if it ends the program
}

// run answers messages until there are no more.
func (t *talk) run(ctx context.Context) error {
	if t.lines.interactive() {
		// Ctrl-C is ours from now on; it has ended the program up to here.
		signal.Reset(os.Interrupt)
		t.interrupts = make(chan os.Signal, 1)
		signal.Notify(t.interrupts, os.Interrupt)
		defer signal.Stop(t.interrupts)
		fmt.Fprintf(t.stderr, "%s, %d tokens of context; /help lists commands\n", t.chatCommand.engine.model.name(), t.engine.Plan().Context)
	}
	once := false // nothing but Ctrl-C was typed at the last prompt
	for {
		text, err := t.lines.message(ctx)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, errInterrupted) && once:
			if t.lines.interactive() {
				fmt.Fprintln(t.stderr)
			}
			return nil
		case errors.Is(err, errInterrupted):
			once = true
			fmt.Fprintln(t.stderr, "Ctrl-C again or Ctrl-D ends the chat")
			continue
		case errors.Is(err, errDropped):
			once = false
			continue
		case err != nil:
			return err
		}
		once = false
		end, err := t.take(ctx, text)
		if end || err != nil && !t.goesOn(ctx, err) {
			return err
		}
		if err != nil {
			report(t.stderr, withHint(err, passHints), "")
		}
	}
}

// goesOn reports whether a person can do something about err in this chat.
func (t *talk) goesOn(ctx context.Context, err error) bool {
	if !t.lines.interactive() || ctx.Err() != nil {
		return false
	}
	var raised *chat.RaisedError
	var hinted hintedError
	return errors.As(err, &raised) || errors.As(err, &hinted) || errors.Is(err, compute.ErrFull)
}

// take does what a message, or a command, says. end ends the chat.
func (t *talk) take(ctx context.Context, text string) (end bool, err error) {
	if strings.TrimSpace(text) == "" {
		return false, nil
	}
	if text, ok := strings.CutPrefix(text, "//"); ok {
		return false, t.answer(ctx, "/"+text)
	}
	if !strings.HasPrefix(text, "/") {
		return false, t.answer(ctx, text)
	}
	command, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	switch command {
	case "/exit", "/quit":
		return true, nil
	case "/help":
		_, err = io.WriteString(t.stderr, chatHelp)
	case "/reset":
		t.messages = t.template.messages()
	case "/system":
		t.setSystem(rest)
	case "/stats":
		t.showStats()
	case "/save":
		err = t.save(ctx, rest)
	default:
		err = hintedError{fmt.Errorf("%s is no command", command), "/help lists them; a message that begins with a slash is written with two"}
	}
	return false, err
}

func (t *talk) setSystem(text string) {
	if len(t.messages) > 0 && t.messages[0].Role == "system" {
		t.messages = t.messages[1:]
	}
	t.template.system = text
	t.messages = append(t.template.messages(), t.messages...)
}

func (t *talk) showStats() {
	fmt.Fprintf(t.stderr, "%-12s%d of %d tokens\n", "context", t.session.Len(), t.engine.Plan().Context)
	if t.last != nil {
		t.last.write(t.stderr)
	}
}

func (t *talk) save(ctx context.Context, path string) error {
	if path == "" {
		return hintedError{errors.New("no file"), "/save FILE"}
	}
	if err := checkWritable(path, t.chatCommand.engine.model); err != nil {
		return hintedError{err, "/save FILE"}
	}
	ctx, stop := t.stoppable(ctx) // a pipe may wait for its reader
	defer stop()
	err := writeFile(ctx, path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(append([]chat.Message{}, t.messages...)) // [] rather than null
	})
	if err != nil {
		return hintedError{err, "/save FILE"}
	}
	fmt.Fprintf(t.stderr, "%d messages in %s\n", len(t.messages), path)
	return nil
}

// answer answers a message and keeps both. If there is no answer, the message is
// forgotten too.
func (t *talk) answer(ctx context.Context, text string) error {
	messages := append(t.messages, chat.Message{Role: "user", Content: text})
	tokens, err := t.encoder.Encode(messages, chat.Options{Answer: true})
	if err != nil {
		return withTemplateHint(err)
	}
	ctx, stop := t.stoppable(ctx)
	defer stop()
	t.last = &runReport{Model: t.chatCommand.engine.model.name(), Seed: t.generate.seed()}
	c := t.generate.config()
	c.Tokens, c.Session, c.Stats = tokens, t.session, &t.last.GenStats
	progress := t.progress.start(t.stderr)
	c.Progress = progress.prompt(t.engine)
	err = t.write(t.engine.Generate(ctx, c), progress.end)
	progress.end()
	stopped := errors.Is(context.Cause(ctx), errInterrupted)
	if stopped {
		err = nil
	}
	if err != nil {
		return withHint(err, answerHints)
	}
	if t.last.Text != "" || !stopped {
		t.messages = append(messages, chat.Message{Role: "assistant", Content: t.last.Text})
	}
	switch {
	case stopped:
		fmt.Fprintln(t.stderr, "stopped")
	case t.last.StopReason == "context":
		fmt.Fprintln(t.stderr, "the context is full: /reset forgets the conversation, --ctx makes room for more")
	case t.last.StopReason == "length":
		fmt.Fprintln(t.stderr, "as many tokens as -n allows")
	}
	return nil
}

// write writes the text of tokens as it comes, and ends its line.
func (t *talk) write(tokens func(func(pipeline.Token, error) bool), hide func()) (err error) {
	write := func(s string) bool {
		if _, failed := io.WriteString(t.stdout, s); failed != nil {
			err = fmt.Errorf("standard output: %w", failed)
		}
		return err == nil
	}
	began := false
	for token, failed := range tokens {
		if failed != nil {
			if began {
				write("\n")
			}
			return failed
		}
		hide()
		began = true
		if !write(token.Text) {
			return err
		}
	}
	write("\n")
	return err
}

// stoppable returns a context that Ctrl-C ends, with [errInterrupted] for its
// cause, where that does not end the program.
func (t *talk) stoppable(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	select {
	case <-t.interrupts: // it came too late for the last answer
	default:
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-t.interrupts: // never if it is nil
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}
