// Package compute runs the transformer: the actor takes a pass, a set of hidden
// states, through one block of weights after the other, as they arrive.
//
// The logits are the same bits whatever the number of threads and however the
// tokens are cut into passes. That follows from three rules: every output
// element has one order of accumulation, which kernel and vec define; work is
// divided by rows and heads, never along a sum; and nothing that a token
// computes depends on which other tokens share its pass.
package compute
