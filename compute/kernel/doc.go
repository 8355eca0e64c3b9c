// Package kernel multiplies weight matrices, quantized or float, with
// activations: the hot path of the engine.
package kernel
