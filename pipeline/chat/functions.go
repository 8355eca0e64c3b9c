package chat

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// An arguments is what a function of ours is called with.
type arguments struct {
	list  []jinja.Value
	named map[string]jinja.Value
}

// at returns argument i, or the one of that name.
func (a arguments) at(i int, name string) (jinja.Value, bool) {
	if v, ok := a.named[name]; ok {
		return v, true
	}
	if i < len(a.list) {
		return a.list[i], true
	}
	return jinja.Undefined(), false
}

func (a arguments) text(i int, name, def string) string {
	if v, ok := a.at(i, name); ok {
		return text(v)
	}
	return def
}

func (a arguments) int(i int, name string, def int) (int, error) {
	v, ok := a.at(i, name)
	switch {
	case !ok:
		return def, nil
	case v.IsInt() && v.AsInt() == int64(int(v.AsInt())):
		return int(v.AsInt()), nil
	}
	return 0, fmt.Errorf("%s: not an integer: %.40s", name, text(v))
}

type function func(arguments) (jinja.Value, error)

// functions returns the functions and filters of ours, by name.
func (r *run) functions() map[string]jinja.Value {
	all := map[string]function{
		fnText:  func(a arguments) (jinja.Value, error) { return r.write(r.texts[a.list[0].AsInt()]) },
		fnAt:    r.at,
		fnWrite: r.writeValue,
		fnKeep:  r.keep,
		fnLoop:  func(arguments) (jinja.Value, error) { return nothing, r.step(1) },
		fnEnter: r.enter,
		fnLeave: r.leave,
		fnCheck: r.checked,

		"range":           r.sequence,
		"raise_exception": raise,
		"strftime_now":    r.strftime,

		prefix + "tojson":     r.tojson,
		prefix + "join":       r.join,
		prefix + "replace":    r.replace,
		prefix + "indent":     r.indent,
		prefix + "times":      r.times,
		prefix + "string":     func(a arguments) (jinja.Value, error) { return jinja.NewString(text(a.list[0])), nil },
		prefix + "map":        mapped,
		prefix + "select":     func(a arguments) (jinja.Value, error) { return selected(a, false, true) },
		prefix + "reject":     func(a arguments) (jinja.Value, error) { return selected(a, false, false) },
		prefix + "selectattr": func(a arguments) (jinja.Value, error) { return selected(a, true, true) },
		prefix + "rejectattr": func(a arguments) (jinja.Value, error) { return selected(a, true, false) },

		prefix + "method_append":  r.appendTo,
		prefix + "method_insert":  r.insert,
		prefix + "method_update":  r.update,
		prefix + "method_replace": r.replace,
		prefix + "method_format":  r.format,
		prefix + "method_join": func(a arguments) (jinja.Value, error) {
			if len(a.list) != 2 {
				return jinja.None(), fmt.Errorf("join: %d arguments", len(a.list)-1)
			}
			return r.join(arguments{list: []jinja.Value{a.list[1], a.list[0]}})
		},
	}
	values := make(map[string]jinja.Value, len(all))
	for name, f := range all {
		values[name] = jinja.NewCallable(name, func(list []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
			return f(arguments{list, named})
		})
	}
	return values
}

var nothing = jinja.NewString("")

func (r *run) at(a arguments) (jinja.Value, error) {
	r.line = int(a.list[0].AsInt())
	return nothing, r.step(1)
}

func (r *run) writeValue(a arguments) (jinja.Value, error) {
	if len(a.list) != 1 || len(a.named) > 0 {
		return nothing, fmt.Errorf("an expression of several values")
	}
	if err := r.check(a.list[0], nil); err != nil {
		return nothing, err
	}
	return r.write(text(a.list[0]))
}

// keep returns a value that gets a name, in a namespace if there is one.
func (r *run) keep(a arguments) (jinja.Value, error) {
	if len(a.list) < 1 || len(a.list) > 2 || len(a.named) > 0 {
		return nothing, fmt.Errorf("an expression of several values")
	}
	var space any
	if len(a.list) == 2 && a.list[1].IsDict() {
		space = a.list[1].AsDict()
	}
	return a.list[0], r.check(a.list[0], space)
}

func (r *run) enter(a arguments) (jinja.Value, error) {
	if r.macros++; r.macros > maxMacros {
		return nothing, limit("more than %d macros in each other", maxMacros)
	}
	for _, v := range a.list {
		if err := r.check(v, nil); err != nil {
			return nothing, err
		}
	}
	return nothing, r.step(1)
}

func (r *run) leave(arguments) (jinja.Value, error) {
	r.macros--
	return nothing, nil
}

func (r *run) checked(a arguments) (jinja.Value, error) {
	return a.list[0], r.check(a.list[0], nil)
}

func (r *run) sequence(a arguments) (jinja.Value, error) {
	from, step := 0, 1
	to, err := a.int(0, "range", 0)
	if len(a.list) > 1 {
		from = to
		to, err = a.int(1, "range", 0)
	}
	if err == nil && len(a.list) > 2 {
		if step, err = a.int(2, "range", 1); step == 0 && err == nil {
			err = fmt.Errorf("range: a step of 0")
		}
	}
	if err != nil {
		return nothing, err
	}
	var list []jinja.Value
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		if len(list) == maxRange {
			return nothing, limit("a range of more than %d", maxRange)
		}
		list = append(list, jinja.NewInt(int64(i)))
	}
	return jinja.NewList(list), nil
}

func raise(a arguments) (jinja.Value, error) {
	return nothing, &RaisedError{a.text(0, "message", "")}
}

// strftime writes the date as Python's strftime does.
func (r *run) strftime(a arguments) (jinja.Value, error) {
	format := a.text(0, "format", "")
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		layout, ok := map[byte]string{
			'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'B': "January", 'b': "Jan", 'h': "Jan",
			'A': "Monday", 'a': "Mon", 'p': "PM", 'I': "03", 'y': "06", 'j': "002", 'Z': "MST", 'z': "-0700",
			'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'e': "_2", 'R': "15:04",
		}[format[i]]
		switch {
		case ok:
			b.WriteString(r.now.Format(layout))
		case format[i] == '-' && i+1 < len(format): // without leading zeros
			i++
			switch format[i] {
			case 'd':
				b.WriteString(strconv.Itoa(r.now.Day()))
			case 'm':
				b.WriteString(strconv.Itoa(int(r.now.Month())))
			default:
				return nothing, fmt.Errorf("strftime: %%-%c is not supported", format[i])
			}
		case format[i] == '%':
			b.WriteByte('%')
		default:
			return nothing, fmt.Errorf("strftime: %%%c is not supported", format[i])
		}
	}
	return jinja.NewString(b.String()), nil
}
