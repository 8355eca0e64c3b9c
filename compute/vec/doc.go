// Package vec holds the vector operations of a transformer. Their results have
// the same bits on every machine, in portable Go and in assembly:
//
//   - Every product is rounded to float32 before anything is added to it. No
//     fused multiply-add takes part: every product stands in a float32(x*y),
//     which keeps the compiler from making one, here or where it inlines.
//   - A sum over a vector has eight lanes that start at zero. Element i is added
//     to lane i mod 8, in the order of i. The sum is
//     ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)).
//   - exp and the functions made from it are the formulas of this package. Of
//     package math only what is exact or correctly rounded is used: bits,
//     Floor, Sqrt.
//
// A NaN stays a NaN, but which of the many is not defined.
//
// Half precision is IEEE 754 binary16 in a uint16. Half to float32 is exact.
//
// The functions keep nothing and allocate nothing. The first slice's length is
// the number of elements, but for [Rope] and [Group]; where another slice is
// shorter, they panic. Slices may begin at the same element of the same memory,
// but may not overlap otherwise.
//
// The portable Go is the definition. On amd64 with AVX2 and F16C, assembly does
// the part of a vector that fills registers, and Go the rest. The environment
// LAYERPIPE_KERNELS=generic, read once at start, and the build tag purego leave
// all to Go.
package vec
