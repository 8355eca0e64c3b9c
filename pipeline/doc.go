// Package pipeline wires the actors into an engine: a reader that brings a
// model's blocks from storage, a dequantizer that prepares them, and compute
// that takes a pass through them. A program imports it, and for some options the
// package that a value of theirs belongs to, such as pipeline/sample.
//
//	     free  (a channel of slots, its capacity is the depth)
//	+-------------------------------------------------------+
//	v                                                       |
//	reader ----loaded----> dequantizer ----ready----> compute
//
// [Open] gives an [Engine], whose Generate is an iterator of tokens and whose
// sessions give logits. One level below, [OpenStream] gives the same reader and
// ring for blocks of a program's own.
//
// Everything that an Engine or a Stream starts has ended when its Close
// returns.
package pipeline
