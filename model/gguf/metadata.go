package gguf

import (
	"fmt"
	"math"
)

// Metadata holds a file's key-value pairs in file order.
//
// A value has the Go type of its GGUF type: uint8 to uint64, int8 to int64,
// float32, float64, bool, string, or a slice of one of these. An array of
// arrays is a []any of slices. The zero Metadata is empty and ready to use.
type Metadata struct {
	keys   []string
	values map[string]any
}

// Keys returns the keys in file order. The caller must not modify the slice.
func (m *Metadata) Keys() []string { return m.keys }

// Value returns the value of key, and whether the file has it.
func (m *Metadata) Value(key string) (any, bool) {
	v, ok := m.values[key]
	return v, ok
}

// Set adds a pair, or replaces the value of a key that is there. It is for
// programs that write files; v must be of a type that [Metadata] lists.
func (m *Metadata) Set(key string, v any) {
	if m.values == nil {
		m.values = map[string]any{}
	}
	if _, ok := m.values[key]; !ok {
		m.keys = append(m.keys, key)
	}
	m.values[key] = v
}

// A Scalar is a Go type that [Get] converts metadata to.
type Scalar interface {
	int | float32 | bool | string
}

// Get returns the value of key as a T. Converters disagree about the width
// and sign of integers, so any integer that fits is taken as an int, and any
// integer or float as a float32; bool and string must be exactly that. ok is
// false if the file lacks the key. A value of another kind, or one that does
// not fit, is an [ErrFormat] that names the key.
func Get[T Scalar](m *Metadata, key string) (v T, ok bool, err error) {
	raw, ok := m.values[key]
	if !ok {
		return v, false, nil
	}
	switch p := any(&v).(type) {
	case *int:
		i, fits := integer(raw)
		if !fits {
			return v, false, typeError(key, raw, "an integer")
		}
		*p = i
	case *float32:
		switch x := raw.(type) {
		case float32:
			*p = x
		case float64:
			*p = float32(x)
			if math.IsInf(float64(*p), 0) && !math.IsInf(x, 0) {
				return v, false, typeError(key, raw, "a number that fits in a float32")
			}
		default:
			i, fits := integer(raw)
			if !fits {
				return v, false, typeError(key, raw, "a number")
			}
			*p = float32(i)
		}
	case *bool:
		if *p, ok = raw.(bool); !ok {
			return v, false, typeError(key, raw, "a bool")
		}
	case *string:
		if *p, ok = raw.(string); !ok {
			return v, false, typeError(key, raw, "a string")
		}
	}
	return v, true, nil
}

// GetOr is [Get] with a default for a file that lacks the key.
func GetOr[T Scalar](m *Metadata, key string, def T) (T, error) {
	v, ok, err := Get[T](m, key)
	if !ok {
		return def, err
	}
	return v, nil
}

// Array returns the array at key. The element type must be exactly T. ok is
// false if the file lacks the key; another type is an [ErrFormat]. The slice
// belongs to m and must not be modified.
func Array[T any](m *Metadata, key string) (v []T, ok bool, err error) {
	raw, ok := m.values[key]
	if !ok {
		return nil, false, nil
	}
	v, ok = raw.([]T)
	if !ok {
		var zero T
		return nil, false, typeError(key, raw, fmt.Sprintf("an array of %T", zero))
	}
	return v, true, nil
}

func typeError(key string, v any, want string) error {
	return fmt.Errorf("%w: metadata %q: value of type %T where %s is expected", ErrFormat, key, v, want)
}

func integer(v any) (int, bool) {
	switch x := v.(type) {
	case uint8:
		return int(x), true
	case int8:
		return int(x), true
	case uint16:
		return int(x), true
	case int16:
		return int(x), true
	case uint32:
		return int(x), true
	case int32:
		return int(x), true
	case uint64:
		return int(x), x <= math.MaxInt
	case int64:
		return int(x), true
	}
	return 0, false
}
