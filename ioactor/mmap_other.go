//go:build !unix

package ioactor

import "errors"

// OpenMmap maps files where the system can.
func OpenMmap([]string) (Backend, error) {
	return nil, errors.New("mapped reads: not on this system")
}
