package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

var (
	errInterrupted = errors.New("interrupted") // Ctrl-C at a prompt
	errDropped     = errors.New("dropped")     // Ctrl-C after something was typed
)

// A lineReader reads lines of what a person, or a script, has to say.
type lineReader struct {
	plain    *bufio.Reader
	terminal *editor // nil if the streams are none
}

type line struct {
	text   string
	pasted bool // it ended within a paste, which goes on
	err    error
}

// newLineReader reads stdin. On a terminal lines can be edited, and those before
// called back, with a prompt on stderr.
func newLineReader(stdin io.Reader, stderr io.Writer) *lineReader {
	if isTerminal(stdin) && isTerminal(stderr) {
		return &lineReader{terminal: newEditor(stdin.(*os.File), stderr.(*os.File))}
	}
	return &lineReader{plain: bufio.NewReader(stdin)}
}

// interactive reports whether a person is there.
func (r *lineReader) interactive() bool { return r.terminal != nil }

// message returns what is said next: a line, several that end with a backslash
// but for the last, what is pasted at once, or the lines between two """. The
// error is io.EOF at the end, [errInterrupted] for Ctrl-C, [errDropped] if
// something was typed before it, the cause of ctx, or that of reading. A read that
// ctx overtakes is left behind.
func (r *lineReader) message(ctx context.Context) (string, error) {
	var text strings.Builder
	quoted := false
	for prompt := "> "; ; prompt = ". " {
		first := prompt == "> "
		l := r.line(ctx, prompt)
		if l.err != nil {
			if errors.Is(l.err, io.EOF) && text.Len() > 0 { // what there is
				return text.String(), nil
			}
			if errors.Is(l.err, errInterrupted) && (!first || l.text != "") {
				return "", errDropped
			}
			return "", l.err
		}
		switch {
		case first && strings.HasPrefix(l.text, `"""`):
			quoted, l.text = true, l.text[3:]
			if inner, ok := strings.CutSuffix(l.text, `"""`); ok {
				return inner, nil
			}
			if l.text == "" {
				continue
			}
		case quoted && strings.HasSuffix(l.text, `"""`):
			rest := strings.TrimSuffix(l.text, `"""`)
			if rest == "" {
				return strings.TrimSuffix(text.String(), "\n"), nil
			}
			return text.String() + rest, nil
		}
		inner, more := strings.CutSuffix(l.text, `\`)
		if !quoted && !more && !l.pasted {
			return text.String() + l.text, nil
		}
		if quoted || l.pasted {
			inner = l.text
		}
		if text.WriteString(inner + "\n"); text.Len() > maxPrompt {
			return "", fmt.Errorf("standard input: %w", errTooLong(maxPrompt))
		}
	}
}

// line reads one line.
func (r *lineReader) line(ctx context.Context, prompt string) line {
	read := r.readPlain
	if r.terminal != nil {
		restore, err := r.terminal.begin(prompt)
		if err != nil {
			return line{err: err}
		}
		defer restore()
		read = r.terminal.read
	}
	done := make(chan line, 1)
	go func() { done <- read() }()
	select {
	case l := <-done:
		return l
	case <-ctx.Done():
		return line{err: context.Cause(ctx)}
	}
}

func (r *lineReader) readPlain() line {
	var text []byte
	err := bufio.ErrBufferFull
	for errors.Is(err, bufio.ErrBufferFull) {
		var part []byte
		part, err = r.plain.ReadSlice('\n')
		if text = append(text, part...); len(text) > maxPrompt {
			err = errTooLong(maxPrompt)
		}
	}
	switch {
	case err == nil, errors.Is(err, io.EOF) && len(text) > 0:
		return line{text: strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")}
	case errors.Is(err, io.EOF):
		return line{err: io.EOF}
	}
	return line{err: fmt.Errorf("standard input: %w", err)}
}

// An editor reads lines from a terminal, which is in raw mode meanwhile.
type editor struct {
	in, out     *os.File
	term        *term.Terminal
	waiting     []byte // input that the line editor has not taken yet
	interrupted bool   // Ctrl-C was typed
}

func newEditor(in, out *os.File) *editor {
	e := &editor{in: in, out: out}
	e.term = term.NewTerminal(e, "")
	e.term.History = &history{editor: e}
	return e
}

// A history is what was entered; a line that Ctrl-C has ended is not.
type history struct {
	editor  *editor
	entries []string
}

// Add implements [term.History].
func (h *history) Add(entry string) {
	if entry != "" && !h.editor.interrupted {
		h.entries = append(h.entries, entry)
	}
}

// Len implements [term.History].
func (h *history) Len() int { return len(h.entries) }

// At implements [term.History]: 0 is the last entry.
func (h *history) At(i int) string { return h.entries[len(h.entries)-1-i] }

// begin makes the terminal ready to read a line. restore undoes it.
func (e *editor) begin(prompt string) (restore func(), err error) {
	fd := int(e.in.Fd())
	state, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	if width, height, err := term.GetSize(fd); err == nil && width > 0 {
		_ = e.term.SetSize(width, height) // a size that it does not like changes nothing
	}
	e.term.SetBracketedPasteMode(true)
	e.term.SetPrompt(prompt)
	return func() {
		e.term.SetBracketedPasteMode(false)
		_ = term.Restore(fd, state) // nothing can be done about it
	}, nil
}

func (e *editor) read() line {
	text, err := e.term.ReadLine()
	if e.interrupted {
		e.interrupted = false
		return line{text: text, err: errInterrupted}
	}
	if errors.Is(err, term.ErrPasteIndicator) {
		return line{text: text, pasted: true}
	}
	return line{text: text, err: err}
}

// Read gives the line editor what is typed. It would take Ctrl-C for the end of
// the input: it gets the key that enters the line instead.
func (e *editor) Read(p []byte) (int, error) {
	const ctrlC, enter = 3, "\r"
	if len(e.waiting) == 0 {
		typed := make([]byte, 256)
		n, err := e.in.Read(typed)
		if err != nil || n == 0 {
			return 0, err
		}
		e.waiting = typed[:n]
	}
	if e.waiting[0] == ctrlC {
		e.interrupted, e.waiting = true, e.waiting[1:]
		return copy(p, enter), nil
	}
	n := bytes.IndexByte(e.waiting, ctrlC) // what was typed before belongs to the line before
	if n < 0 {
		n = len(e.waiting)
	}
	n = copy(p, e.waiting[:n])
	e.waiting = e.waiting[n:]
	return n, nil
}

// Write shows what the line editor makes of it.
func (e *editor) Write(p []byte) (int, error) { return e.out.Write(p) }
