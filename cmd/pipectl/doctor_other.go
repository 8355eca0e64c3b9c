//go:build !linux

package main

import (
	"errors"
	"runtime"
)

// directReads are for Linux alone.
func directReads(string) (bool, error) { return false, errors.New(runtime.GOOS + " has no such reads") }

// checkSystem knows no settings of this system.
func (d *doctorCommand) checkSystem() {}
