package chat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

func (r *run) tojson(a arguments) (jinja.Value, error) {
	if err := r.check(a.list[0], nil); err != nil {
		return nothing, err
	}
	indent, comma, colon := "", ", ", ": "
	if v, ok := a.at(1, "indent"); ok && !v.IsNone() {
		n, err := a.int(1, "indent", 0)
		if err != nil || n < 0 || n > 16 {
			return nothing, fmt.Errorf("tojson: indent %.40s", text(v))
		}
		indent, comma = strings.Repeat(" ", n), ","
	}
	if v, ok := a.named["separators"]; ok && v.IsList() && v.AsList().Len() == 2 {
		comma, colon = text(v.AsList().Get(0)), text(v.AsList().Get(1))
		if len(comma)+len(colon) > 16 {
			return nothing, fmt.Errorf("tojson: separators %.40s", text(v))
		}
	}
	for name := range a.named {
		if !slices.Contains([]string{"indent", "separators", "ensure_ascii"}, name) {
			return nothing, fmt.Errorf("tojson: %s is not supported", name)
		}
	}
	var b strings.Builder
	err := writeJSON(&b, a.list[0], indent, "", comma, colon)
	return jinja.NewString(b.String()), err
}

func (r *run) join(a arguments) (jinja.Value, error) {
	items, separator := elements(a.list[0]), a.text(1, "d", "")
	attribute, hasAttribute := a.named["attribute"]
	parts, size := make([]string, len(items)), len(separator)*len(items)
	for i, v := range items {
		if hasAttribute {
			v = field(v, text(attribute))
		}
		parts[i] = text(v)
		size += len(parts[i])
	}
	if err := r.size(size); err != nil {
		return nothing, err
	}
	return jinja.NewString(strings.Join(parts, separator)), nil
}

func (r *run) replace(a arguments) (jinja.Value, error) {
	if len(a.list) < 3 {
		return nothing, fmt.Errorf("replace: %d arguments", len(a.list)-1)
	}
	s, old, by := text(a.list[0]), text(a.list[1]), text(a.list[2])
	count, err := a.int(3, "count", -1)
	if err != nil {
		return nothing, err
	}
	n := strings.Count(s, old)
	if count >= 0 {
		n = min(n, count)
	}
	if err := r.size(len(s) + n*len(by)); err != nil {
		return nothing, err
	}
	return jinja.NewString(strings.Replace(s, old, by, count)), nil
}

func (r *run) indent(a arguments) (jinja.Value, error) {
	s := text(a.list[0])
	width := a.text(1, "width", "    ")
	if v, ok := a.at(1, "width"); ok && !v.IsString() {
		n, err := a.int(1, "width", 4)
		if err != nil || n < 0 || n > 64 {
			return nothing, fmt.Errorf("indent: width %.40s", text(v))
		}
		width = strings.Repeat(" ", n)
	}
	first, _ := a.at(2, "first")
	blank, _ := a.at(3, "blank")
	lines := strings.Split(s, "\n")
	if err := r.size(len(s) + len(width)*len(lines)); err != nil {
		return nothing, err
	}
	for i, l := range lines {
		if i == 0 && !first.IsTruthy() || i > 0 && l == "" && !blank.IsTruthy() {
			continue
		}
		lines[i] = width + l
	}
	return jinja.NewString(strings.Join(lines, "\n")), nil
}

// times is the operator *: it multiplies, or repeats a text.
func (r *run) times(a arguments) (jinja.Value, error) {
	x, y := a.list[0], a.list[1]
	if y.IsString() {
		x, y = y, x
	}
	switch {
	case x.IsInt() && y.IsInt():
		return jinja.NewInt(x.AsInt() * y.AsInt()), nil
	case x.IsString() && y.IsInt():
		n := max(y.AsInt(), 0)
		if n > int64(r.maxBytes) {
			return nothing, r.size(r.maxBytes + 1)
		}
		if err := r.size(len(x.AsString()) * int(n)); err != nil {
			return nothing, err
		}
		return jinja.NewString(strings.Repeat(x.AsString(), int(n))), nil
	}
	return nothing, fmt.Errorf("* of %.40s and %.40s is not supported", text(x), text(y))
}

// format fills in {} and {0}, without any specification.
func (r *run) format(a arguments) (jinja.Value, error) {
	if !a.list[0].IsString() {
		return nothing, fmt.Errorf("format of what is no string")
	}
	var b strings.Builder
	rest, next := a.list[0].AsString(), 1
	for {
		before, after, ok := strings.Cut(rest, "{")
		b.WriteString(before)
		if !ok {
			return jinja.NewString(b.String()), nil
		}
		name, after, ok := strings.Cut(after, "}")
		i := next
		if name == "" {
			next++
		} else if n, err := strconv.Atoi(name); err == nil {
			i = n + 1
		} else {
			ok = false
		}
		if !ok || i < 1 || i >= len(a.list) {
			return nothing, fmt.Errorf("format: {%.40s} is not supported", name)
		}
		b.WriteString(text(a.list[i]))
		if err := r.size(b.Len()); err != nil {
			return nothing, err
		}
		rest = after
	}
}

// mapped is the filter map, with an attribute or a simple filter.
func mapped(a arguments) (jinja.Value, error) {
	simple := map[string]func(string) string{
		"trim": strings.TrimSpace, "upper": strings.ToUpper, "lower": strings.ToLower, "string": func(s string) string { return s },
	}
	items := elements(a.list[0])
	list := make([]jinja.Value, len(items))
	attribute, byAttribute := a.named["attribute"]
	f := simple[a.text(1, "filter", "")]
	if !byAttribute && f == nil {
		return nothing, fmt.Errorf("map: filter %.40q is not supported", a.text(1, "filter", ""))
	}
	for i, v := range items {
		if !byAttribute {
			list[i] = jinja.NewString(f(text(v)))
			continue
		}
		list[i] = field(v, text(attribute))
		if def, ok := a.named["default"]; ok && list[i].IsUndefined() {
			list[i] = def
		}
	}
	return jinja.NewList(list), nil
}

// selected is the filters select and reject, or those that look at an attribute.
func selected(a arguments, attribute, want bool) (jinja.Value, error) {
	rest := a.list[1:]
	name := ""
	if attribute {
		if len(rest) == 0 {
			return nothing, fmt.Errorf("selectattr: no attribute")
		}
		name, rest = text(rest[0]), rest[1:]
	}
	var list []jinja.Value
	for _, item := range elements(a.list[0]) {
		v := item
		if attribute {
			v = field(item, name)
		}
		is, err := passes(v, rest)
		if err != nil {
			return nothing, err
		}
		if is == want {
			list = append(list, item)
		}
	}
	return jinja.NewList(list), nil
}

// passes tests v as the name and the argument in test say.
func passes(v jinja.Value, test []jinja.Value) (bool, error) {
	if len(test) == 0 {
		return v.IsTruthy(), nil
	}
	name := text(test[0])
	switch name {
	case "defined":
		return !v.IsUndefined(), nil
	case "undefined":
		return v.IsUndefined(), nil
	case "none":
		return v.IsNone(), nil
	case "string":
		return v.IsString(), nil
	case "mapping":
		return v.IsDict(), nil
	}
	if len(test) > 1 {
		switch name {
		case "equalto", "eq", "==":
			return v.Equals(test[1]), nil
		case "ne", "!=":
			return !v.Equals(test[1]), nil
		case "in":
			return slices.ContainsFunc(elements(test[1]), v.Equals), nil
		}
	}
	return false, fmt.Errorf("test %.40q is not supported in a filter", name)
}

// elements returns what a loop over v would go through.
func elements(v jinja.Value) []jinja.Value {
	var list []jinja.Value
	switch {
	case v.IsList():
		return v.AsList().Items
	case v.IsDict():
		for _, key := range v.AsDict().Keys {
			list = append(list, jinja.NewString(key))
		}
	case v.IsString():
		for s := v.AsString(); s != ""; {
			_, n := utf8.DecodeRuneInString(s)
			list = append(list, jinja.NewString(s[:n]))
			s = s[n:]
		}
	}
	return list
}

func field(v jinja.Value, name string) jinja.Value {
	if !v.IsDict() {
		return jinja.Undefined()
	}
	x, _ := v.AsDict().Get(name)
	return x
}

func (r *run) appendTo(a arguments) (jinja.Value, error) {
	if len(a.list) != 2 || !a.list[0].IsList() {
		return nothing, fmt.Errorf("append to what is no list")
	}
	l := a.list[0].AsList()
	if err := r.check(a.list[1], l); err != nil {
		return nothing, err
	}
	l.Append(a.list[1])
	return jinja.None(), r.size(nodeBytes * l.Len())
}

func (r *run) insert(a arguments) (jinja.Value, error) {
	if len(a.list) != 3 || !a.list[0].IsList() {
		return nothing, fmt.Errorf("insert into what is no list")
	}
	l := a.list[0].AsList()
	i, err := a.int(1, "index", 0)
	if err != nil {
		return nothing, err
	}
	if err := r.check(a.list[2], l); err != nil {
		return nothing, err
	}
	if i < 0 {
		i += l.Len()
	}
	l.Items = slices.Insert(l.Items, min(max(i, 0), l.Len()), a.list[2])
	return jinja.None(), r.size(nodeBytes * l.Len())
}

func (r *run) update(a arguments) (jinja.Value, error) {
	if len(a.list) != 2 || !a.list[0].IsDict() || !a.list[1].IsDict() {
		return nothing, fmt.Errorf("update of what is no dict")
	}
	d, from := a.list[0].AsDict(), a.list[1].AsDict()
	if d == from {
		return jinja.None(), nil
	}
	if err := r.check(a.list[1], d); err != nil {
		return nothing, err
	}
	for _, key := range from.Keys {
		d.Set(key, from.Data[key])
	}
	return jinja.None(), r.size(nodeBytes * d.Len())
}
