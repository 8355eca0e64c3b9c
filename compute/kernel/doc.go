// Package kernel multiplies weight matrices, quantized or float, with
// activations: the hot path of the engine.
//
//	var a kernel.Acts
//	a.Reset(w.Type, columns, w.Cols)
//	a.Quantize(x, 0, columns)                     // shared by columns
//	kernel.Mul(dst, w.Rows, w, &a, 0, w.Rows)     // shared by rows
//
// # The numbers
//
// A product is defined to the bit. Every layout, number of columns, division of
// the work and machine gives the same float32, so that logits depend neither on
// how a prompt was cut into passes nor on where it ran. All operations below
// are float32 ones, each rounded to nearest even; none is fused with another.
// The bits of a NaN are not defined, that it is one is.
//
// Activations that meet quantized weights are rounded to 8 bits. In each run of
// 32 values (for types with blocks of 32) or 256 (for types with super-blocks):
//
//	d = max|x| / 127        id = 1 / d        q = round to nearest even(x * id)
//
// If id is infinite (all values are below 2^-121 or so), d and all q are 0. If
// a value is infinite or NaN, d is NaN and all q are 0, so that each product
// that the run takes part in is NaN.
//
// A product is the sum over the row's blocks, in order, in one accumulator that
// starts at 0. Inside a block the sums are of integers and exact:
//
//	sum    = Σ q·w         w the integer weights: nibble-8, table value, ...
//	S      = Σ scale·q·w   scale the integer scale of the value's sub-block
//	M      = Σ min·q       min the integer minimum of the value's sub-block
//
// With D and m for the block's own scale and minimum, and d for that of the
// activations:
//
//	types                          for each block
//	Q4_0 Q5_0 Q8_0 IQ4_NL MXFP4    acc = acc + sum*(D*d)
//	Q4_1 Q5_1                      acc = acc + sum*(D*d), then acc = acc + m*(d*Σq)
//	Q3_K Q6_K IQ4_XS               acc = acc + d*(D*S)
//	IQ2_XXS IQ2_XS IQ2_S           acc = acc + d*(D*S)
//	IQ3_XXS IQ3_S                  acc = acc + d*(D*S)
//	Q2_K Q4_K Q5_K                 acc = acc + d*(D*S - m*M)
//	F32 F16 BF16                   lane[i mod 8] = lane[i mod 8] + w[i]*x[i]
//
// sum, S, M and Σq are rounded to float32 once. MXFP4 weights are twice the
// E2M1 values and D is half the block's scale. Weights of the types IQ2
// and IQ3 are the values of a point of the grid with their signs, scale is the odd
// number 2s+1 with s as in the file, and D is the block's scale divided by 8, for
// IQ3_XXS by 4 and for IQ3_S by 1. For float weights the activations stay float32, and the eight lanes are
// added at the end:
//
//	((0+4)+(2+6)) + ((1+5)+(3+7))
//
// # How it is computed
//
// generic.go is the definition in portable Go. The vector kernels of amd64,
// written by the generator in _gen, know one arrangement of quantized weights:
// the panel, eight rows interleaved so that a lane of a vector is a row. Then
// lanes are never added to each other, and the accumulator of a product is a
// lane. Rows that are not in panels are brought into one, some KiB at a time in
// the L1 cache, which costs less than the shuffles of a kernel on rows. With
// AVX2 a kernel takes one panel and up to four columns, with VNNI two panels and
// four or eight columns.
//
// Weights that are points of a grid have no panels: they are looked up one by
// one, whatever the arrangement. Their rows are decoded to panels of bytes in the
// L1 cache, once for all columns.
package kernel
