// Package test has the end-to-end tests: parity with logits that other engines
// computed, identity of the bits over backends, depths, threads and passes,
// shutdown, faults and memory.
package test
