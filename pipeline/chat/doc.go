// Package chat turns a conversation into a prompt: it renders the template that
// a model brings with it (metadata tokenizer.chat_template, in Jinja), and
// encodes the result so that what people write stays text.
//
//	e, err := chat.NewEncoder(source, tok)
//	prompt, err := e.Encode(messages, chat.Options{Answer: true})
//
// # A template is not trusted
//
// A template is a program from a file. The evaluator under this package
// (github.com/ardanlabs/jinja) bounds nothing: a macro that calls itself takes
// the process down, and so does a string that is doubled often enough. So New
// does not give it the template, but one of its own making, in which
//
//   - all text outside of tags is a call that counts what is written,
//   - each tag reports its line, each round of a loop and each macro that it
//     begins, and macros how deep they are,
//   - whatever a name stands for, or a call or a filter returns, is measured
//     before it is used: how large it is, and how deep; nothing can be put into
//     what it contains,
//   - operations that can make much of little (range, join, replace, indent,
//     format, tojson, append, ...) are ours, and look before they do it,
//   - what cannot be bounded (repetition with *, slices with a step) and what
//     chat templates do not need (call and filter blocks) is refused.
//
// Rendering ends with an [ErrLimit] when the template exceeds its share of steps,
// bytes or time. What remains: a template may keep one CPU busy for 2 s and a
// single expression longer, and it may take some hundred MB meanwhile.
package chat
