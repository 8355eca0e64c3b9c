//go:build race

package main

// raceEnabled says that arithmetic is twenty times slower than usual.
const raceEnabled = true
