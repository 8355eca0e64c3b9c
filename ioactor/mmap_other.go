//go:build !unix

package ioactor

import "errors"

var errNoMapping = errors.New("mapped reads: not on this system")

// OpenMmap maps files where the system can.
func OpenMmap([]string, Hint) (Backend, error) { return nil, errNoMapping }

// OpenView maps files where the system can.
func OpenView([]string) (Backend, error) { return nil, errNoMapping }
