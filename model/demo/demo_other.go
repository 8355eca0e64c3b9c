//go:build !linux

package demo

import "errors"

func writeUnnamed() (path string, remove func() error, err error) {
	return "", nil, errors.ErrUnsupported
}
