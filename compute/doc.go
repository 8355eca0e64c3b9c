// Package compute runs the transformer: the actor takes a pass, a set of hidden
// states, through one block of weights after the other, as they arrive.
//
// There is one block for all architectures. What differs, package model says:
// which tensors a layer has (head norms, post norms, sinks, a router), and in
// its Params the rotations, windows, caps, activation and routing.
//
// The logits are the same bits whatever the number of threads and however the
// tokens are cut into passes. That follows from these rules: every output
// element has one order of accumulation, which kernel and vec define; work is
// divided by rows and heads, never along a sum; a token adds up its experts in
// the order of their numbers; and nothing that a token computes depends on which
// other tokens share its pass.
package compute
