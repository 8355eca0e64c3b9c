package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/pipeline/chat"
)

// templateKey is where a file has its chat template.
const templateKey = "tokenizer.chat_template"

var templateHint = "choose a template with --chat-template: a file, or one of " + strings.Join(chat.Names(), ", ")

// templateFlags say how a conversation becomes a prompt.
type templateFlags struct {
	template string // a file or a name; "" for the model's
	system   string
}

func (t *templateFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&t.system, "system", "", "`TEXT` that tells the model how to behave")
	flags.StringVar(&t.template, "chat-template", "", "Jinja template `FILE` for conversations, or one of "+strings.Join(chat.Names(), ", ")+" (default the model's own)")
	_ = cmd.RegisterFlagCompletionFunc("chat-template", cobra.FixedCompletions(chat.Names(), cobra.ShellCompDirectiveDefault))
}

// messages returns the beginning of a conversation.
func (t *templateFlags) messages() []chat.Message {
	if t.system == "" {
		return nil
	}
	return []chat.Message{{Role: "system", Content: t.system}}
}

// encoder compiles the template for the model of e.
func (t *templateFlags) encoder(ctx context.Context, e *pipeline.Engine) (*chat.Encoder, error) {
	source, err := t.source(ctx, e.Model().File.Metadata)
	if err != nil {
		return nil, err
	}
	encoder, err := chat.NewEncoder(source, e.Tokenizer())
	return encoder, withTemplateHint(err)
}

func (t *templateFlags) source(ctx context.Context, m *gguf.Metadata) (string, error) {
	if t.template == "" {
		source, ok, err := gguf.Get[string](m, templateKey)
		if err == nil && !ok {
			err = hintedError{errors.New("the model has no chat template"), templateHint}
		}
		return source, err
	}
	if source, ok := chat.Source(t.template); ok {
		return source, nil
	}
	f, err := open(ctx, t.template, os.O_RDONLY)
	if err != nil {
		return "", hintedError{err, templateHint}
	}
	defer f.Close()
	return readAll(ctx, "chat template", f, 1<<20) // chat takes less
}

// withTemplateHint says what to do about a template that does not work.
func withTemplateHint(err error) error {
	var raised *chat.RaisedError
	if errors.As(err, &raised) || errors.Is(err, chat.ErrTemplate) {
		return hintedError{err, templateHint}
	}
	return err
}
