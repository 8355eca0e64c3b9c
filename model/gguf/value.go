package gguf

import "encoding/binary"

// A valueType is the type of a metadata value, numbered as in the
// specification (enum gguf_metadata_value_type).
type valueType uint32

const (
	valueUint8 valueType = iota
	valueInt8
	valueUint16
	valueInt16
	valueUint32
	valueInt32
	valueFloat32
	valueBool
	valueString
	valueArray
	valueUint64
	valueInt64
	valueFloat64
)

// leastBytes is what a value of each type takes in a file at least: all of a
// number, the length of a string, the element type and length of an array.
var leastBytes = [...]uint64{
	valueUint8: 1, valueInt8: 1, valueUint16: 2, valueInt16: 2,
	valueUint32: 4, valueInt32: 4, valueFloat32: 4, valueBool: 1,
	valueString: 8, valueArray: 12,
	valueUint64: 8, valueInt64: 8, valueFloat64: 8,
}

// value reads a metadata value of type t.
func (d *decoder) value(t valueType) (any, error) {
	switch t {
	case valueUint8:
		return number[uint8](d)
	case valueInt8:
		return number[int8](d)
	case valueUint16:
		return number[uint16](d)
	case valueInt16:
		return number[int16](d)
	case valueUint32:
		return number[uint32](d)
	case valueInt32:
		return number[int32](d)
	case valueFloat32:
		return number[float32](d)
	case valueUint64:
		return number[uint64](d)
	case valueInt64:
		return number[int64](d)
	case valueFloat64:
		return number[float64](d)
	case valueBool:
		b, err := d.bools(1)
		if err != nil {
			return nil, err
		}
		return b[0], nil
	case valueString:
		return d.str(MaxStringBytes)
	case valueArray:
		return d.array(1)
	}
	return nil, d.errorf(ErrFormat, "value type %d", t)
}

// array reads an array that is the depth-th of its nest.
func (d *decoder) array(depth int) (any, error) {
	if depth > MaxArrayDepth {
		return nil, d.errorf(ErrUnsupported, "arrays nested more than %d deep", MaxArrayDepth)
	}
	elem, err := d.uint32()
	if err != nil {
		return nil, err
	}
	t := valueType(elem)
	if t > valueFloat64 {
		return nil, d.errorf(ErrFormat, "array of value type %d", t)
	}
	n, err := d.count("array elements", MaxArrayLen, leastBytes[t])
	if err != nil {
		return nil, err
	}
	switch t {
	case valueUint8:
		return numbers[uint8](d, n)
	case valueInt8:
		return numbers[int8](d, n)
	case valueUint16:
		return numbers[uint16](d, n)
	case valueInt16:
		return numbers[int16](d, n)
	case valueUint32:
		return numbers[uint32](d, n)
	case valueInt32:
		return numbers[int32](d, n)
	case valueFloat32:
		return numbers[float32](d, n)
	case valueUint64:
		return numbers[uint64](d, n)
	case valueInt64:
		return numbers[int64](d, n)
	case valueFloat64:
		return numbers[float64](d, n)
	case valueBool:
		return d.bools(n)
	case valueString:
		v := make([]string, n)
		for i := range v {
			if v[i], err = d.str(MaxStringBytes); err != nil {
				return nil, err
			}
		}
		return v, nil
	default: // valueArray
		v := make([]any, n)
		for i := range v {
			if v[i], err = d.array(depth + 1); err != nil {
				return nil, err
			}
		}
		return v, nil
	}
}

func number[T any](d *decoder) (any, error) {
	v, err := numbers[T](d, 1)
	if err != nil {
		return nil, err
	}
	return v[0], nil
}

// numbers reads n numbers of type T.
func numbers[T any](d *decoder, n int) ([]T, error) {
	v := make([]T, n)
	var zero T
	size := binary.Size(zero)
	for rest := v; len(rest) > 0; {
		b, err := d.next(min(len(rest), windowBytes/size) * size)
		if err != nil {
			return nil, err
		}
		k := len(b) / size
		if _, err := binary.Decode(b, d.order, rest[:k]); err != nil {
			return nil, err
		}
		rest = rest[k:]
	}
	return v, nil
}

// bools reads n bools. The specification calls any byte but 0 and 1 invalid.
func (d *decoder) bools(n int) ([]bool, error) {
	raw, err := numbers[uint8](d, n)
	if err != nil {
		return nil, err
	}
	v := make([]bool, n)
	for i, b := range raw {
		if b > 1 {
			return nil, d.errorAt(d.pos()-int64(n-i), ErrFormat, "bool of value %d", b)
		}
		v[i] = b == 1
	}
	return v, nil
}
