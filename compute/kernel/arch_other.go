//go:build !amd64 || purego

package kernel

// There are no vector kernels here: fast stays empty.
