package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// fromJSON decodes a JSON value whose objects keep the order of their keys.
func fromJSON(data []byte) (jinja.Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decode(d, 0)
	if err != nil {
		return v, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, errors.New("JSON: more than one value")
	}
	return v, nil
}

func decode(d *json.Decoder, depth int) (jinja.Value, error) {
	t, err := d.Token()
	if err != nil {
		return jinja.None(), err
	}
	open, ok := t.(json.Delim)
	if !ok {
		return jinja.FromGoValue(t), nil
	}
	if depth++; depth > maxDepth {
		return jinja.None(), fmt.Errorf("JSON: more than %d levels", maxDepth)
	}
	object, list := jinja.NewDict(), []jinja.Value{}
	for d.More() {
		var key string
		if open == '{' {
			k, err := d.Token()
			if err != nil {
				return object, err
			}
			key = k.(string)
		}
		v, err := decode(d, depth)
		if err != nil {
			return v, err
		}
		if open == '{' {
			object.AsDict().Set(key, v)
		} else {
			list = append(list, v)
		}
	}
	if _, err := d.Token(); err != nil { // the end
		return object, err
	}
	if open == '{' {
		return object, nil
	}
	return jinja.NewList(list), nil
}

// text is str() of Python: what {{ v }} writes.
func text(v jinja.Value) string {
	switch {
	case v.IsString():
		return v.AsString()
	case v.IsUndefined():
		return ""
	}
	var b strings.Builder
	writeRepr(&b, v)
	return b.String()
}

// writeRepr writes repr() of Python.
func writeRepr(b *strings.Builder, v jinja.Value) {
	switch {
	case v.IsString():
		writeQuoted(b, v.AsString())
	case v.IsFloat():
		b.WriteString(number(v.AsFloat()))
	case v.IsList():
		b.WriteByte('[')
		for i, x := range v.AsList().Items {
			if i > 0 {
				b.WriteString(", ")
			}
			writeRepr(b, x)
		}
		b.WriteByte(']')
	case v.IsDict():
		b.WriteByte('{')
		for i, key := range v.AsDict().Keys {
			if i > 0 {
				b.WriteString(", ")
			}
			writeQuoted(b, key)
			b.WriteString(": ")
			writeRepr(b, v.AsDict().Data[key])
		}
		b.WriteByte('}')
	default:
		b.WriteString(v.String()) // None, True, 12
	}
}

var inQuotes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

func writeQuoted(b *strings.Builder, s string) {
	quote := "'"
	if strings.Contains(s, "'") {
		if strings.Contains(s, `"`) {
			s = strings.ReplaceAll(s, `\`, `\\`)
			s = strings.ReplaceAll(s, "'", `\'`)
			b.WriteString("'" + strings.ReplaceAll(s, "\n", `\n`) + "'")
			return
		}
		quote = `"`
	}
	b.WriteString(quote + inQuotes.Replace(s) + quote)
}

// number writes a float as Python does: with a point, or an exponent where that
// is much shorter.
func number(x float64) string {
	s := strconv.FormatFloat(x, 'g', -1, 64)
	if exp := strings.IndexByte(s, 'e'); exp >= 0 {
		if n, _ := strconv.Atoi(s[exp+1:]); n >= -4 && n < 16 {
			s = strconv.FormatFloat(x, 'f', -1, 64)
		}
	}
	if !strings.ContainsAny(s, ".eIN") {
		s += ".0"
	}
	return s
}

// writeJSON writes json.dumps(v, ensure_ascii=False) of Python.
func writeJSON(b *strings.Builder, v jinja.Value, indent, before, comma, colon string) error {
	inner := before + indent
	separate := func(i int, more string) {
		if i > 0 {
			b.WriteString(more)
		}
		if indent != "" {
			b.WriteString("\n" + inner)
		}
	}
	end := func(n int) {
		if indent != "" && n > 0 {
			b.WriteString("\n" + before)
		}
	}
	switch {
	case v.IsUndefined() || v.IsCallable():
		return errors.New("tojson: a value that is none")
	case v.IsNone():
		b.WriteString("null")
	case v.IsBool():
		b.WriteString(strconv.FormatBool(v.AsBool()))
	case v.IsFloat():
		b.WriteString(number(v.AsFloat()))
	case v.IsString():
		return writeJSONString(b, v.AsString())
	case v.IsList():
		b.WriteByte('[')
		for i, x := range v.AsList().Items {
			separate(i, comma)
			if err := writeJSON(b, x, indent, inner, comma, colon); err != nil {
				return err
			}
		}
		end(v.AsList().Len())
		b.WriteByte(']')
	case v.IsDict():
		b.WriteByte('{')
		for i, key := range v.AsDict().Keys {
			separate(i, comma)
			if err := writeJSONString(b, key); err != nil {
				return err
			}
			b.WriteString(colon)
			if err := writeJSON(b, v.AsDict().Data[key], indent, inner, comma, colon); err != nil {
				return err
			}
		}
		end(v.AsDict().Len())
		b.WriteByte('}')
	default:
		b.WriteString(v.String())
	}
	return nil
}

func writeJSONString(b *strings.Builder, s string) error {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return err
	}
	out := strings.TrimSuffix(buf.String(), "\n")
	// What Go escapes for JavaScript's sake, Python writes as it is.
	out = strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(out)
	b.WriteString(out)
	return nil
}
