package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/layerpipe/layerpipe/model/tokenizer"
)

// tokenizeCommand is the state of pipectl tokenize.
type tokenizeCommand struct {
	model                   modelFlag
	noSpecial, decode, json bool
}

func newTokenize() *cobra.Command {
	var t tokenizeCommand
	cmd := &cobra.Command{
		Use:   "tokenize [TEXT | --decode IDS...]",
		Short: "Turn text into token ids, and back",
		Long: `Tokenize writes the ids of the tokens that a text consists of, separated by
spaces. Without TEXT it takes standard input, byte for byte, up to 64 MiB.

With --decode it writes the text of ids, byte for byte. They are separated by
spaces or commas, and come from standard input if there are none.

It reads the model's vocabulary alone.`,
		Example: `  pipectl tokenize "Once upon a time"
  pipectl tokenize -m model.gguf --no-special < text.txt | pipectl tokenize -m model.gguf --decode`,
		RunE: func(cmd *cobra.Command, args []string) error { return t.run(cmd, args) },
	}
	flags := cmd.Flags()
	t.model.add(cmd)
	flags.BoolVar(&t.noSpecial, "no-special", false, "add no token for the start or end, and take text that reads like a special token as text")
	flags.BoolVarP(&t.decode, "decode", "d", false, "turn ids into text")
	flags.BoolVar(&t.json, "json", false, "write the ids as a JSON object")
	return cmd
}

func (t *tokenizeCommand) run(cmd *cobra.Command, args []string) error {
	switch {
	case t.decode && t.json:
		return usagef("--decode writes bytes, it contradicts --json")
	case t.decode && t.noSpecial:
		return usagef("--no-special is about text, it contradicts --decode")
	case !t.decode && len(args) > 1:
		return usageError{hintedError{fmt.Errorf("unexpected argument %q", args[1]), "put the text in quotes"}}
	}
	tok, err := t.model.tokenizer()
	if err != nil {
		return withHint(err, openHints)
	}
	text := strings.Join(args, " ")
	if len(args) == 0 {
		if text, err = readAll(cmd.Context(), "standard input", cmd.InOrStdin(), maxText); err != nil {
			return err
		}
	}
	if t.decode {
		return decode(cmd.OutOrStdout(), tok, text)
	}
	ids, err := encode(cmd.Context(), tok, text, tokenizer.Options{AddSpecial: !t.noSpecial, ParseSpecial: !t.noSpecial})
	if err != nil {
		return err
	}
	return t.write(cmd.OutOrStdout(), ids)
}

func (t *tokenizeCommand) write(w io.Writer, ids []int32) error {
	if t.json {
		return writeJSON(w, struct {
			IDs []int32 `json:"ids"`
		}{ids})
	}
	line := strings.Trim(fmt.Sprint(ids), "[]")
	_, err := fmt.Fprintln(w, line)
	return err
}

func decode(w io.Writer, tok *tokenizer.Tokenizer, list string) error {
	ids, err := parseIDs(list)
	if err != nil {
		return usageError{err}
	}
	if err := checkIDs(ids, tok.Size()); err != nil {
		return err
	}
	_, err = io.WriteString(w, tok.Decode(ids))
	return err
}
