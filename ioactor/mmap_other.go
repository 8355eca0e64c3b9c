//go:build !unix

package ioactor

import (
	"errors"
	"fmt"
)

var errNoMapping = fmt.Errorf("mapped reads: %w on this system", errors.ErrUnsupported)

// OpenMmap maps files where the system can.
func OpenMmap([]string, Hint) (Backend, error) { return nil, errNoMapping }

// OpenView maps files where the system can.
func OpenView([]string) (Backend, error) { return nil, errNoMapping }
