package demo

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// writeUnnamed writes the model to a file that exists for as long as it is open,
// which remove ends.
func writeUnnamed() (path string, remove func() error, err error) {
	fd, err := unix.Open(os.TempDir(), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		if path, remove, err = write(fd); err == nil {
			return path, remove, nil
		}
	}
	if fd, err = unix.MemfdCreate("layerpipe-demo", unix.MFD_CLOEXEC); err != nil {
		return "", nil, fmt.Errorf("demo model: %w", err)
	}
	return write(fd)
}

// write writes the model to fd.
func write(fd int) (path string, remove func() error, err error) {
	path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	f := os.NewFile(uintptr(fd), path)
	_, err = f.Write(model)
	if err == nil {
		var again *os.File
		if again, err = os.Open(path); err == nil { // else there is no /proc, or no such files
			err = again.Close()
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("demo model: %w", errors.Join(err, f.Close()))
	}
	return path, f.Close, nil
}
