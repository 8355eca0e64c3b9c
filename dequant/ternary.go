package dequant

// expandTQ1_0 computes d*(q-1), where q is a digit in base 3. block_tq1_0 in
// ggml-common.h:
//
//	 0  qs  48 bytes of 5 digits: first 32 for the values j, 32+j, ... 128+j,
//	        then 16 for 160+j, 176+j, ... 224+j
//	48  qh  4 bytes of 4 digits: 240+j, 244+j, ... 252+j
//	52  d   binary16
//
// A byte holds the digits as a fraction of 256: the leading digit is what
// multiplying by 3 carries out of the byte.
func expandTQ1_0(dst []float32, src []byte) {
	for len(src) >= 54 && len(dst) >= 256 {
		b, y := (*[54]byte)(src), (*[256]float32)(dst)
		src, dst = src[54:], dst[256:]
		d := f16(b[52], b[53])
		for j, q := range b[:32] {
			for n := range 5 {
				y[32*n+j], q = digit(d, q)
			}
		}
		for j, q := range b[32:48] {
			for n := range 5 {
				y[160+16*n+j], q = digit(d, q)
			}
		}
		for j, q := range b[48:52] {
			for n := range 4 {
				y[240+4*n+j], q = digit(d, q)
			}
		}
	}
}

// digit returns the value of the leading base-3 digit of the fraction q, and
// the fraction that the other digits make.
func digit(d float32, q byte) (v float32, rest byte) {
	x := 3 * uint32(q)
	return d * float32(int32(x>>8)-1), byte(x)
}

// expandTQ2_0 computes d*(q-1). block_tq2_0 in ggml-common.h:
//
//	 0  qs  64 bytes, 2-bit q; 32 bytes for each 128 values, which are 32 apart
//	64  d   binary16
func expandTQ2_0(dst []float32, src []byte) {
	for len(src) >= 66 && len(dst) >= 256 {
		b, y := (*[66]byte)(src), (*[256]float32)(dst)
		src, dst = src[66:], dst[256:]
		d := f16(b[64], b[65])
		for i := range 2 {
			qs := (*[32]byte)(b[32*i:])
			out := (*[128]float32)(y[128*i:])
			for j, q := range qs {
				out[j] = d * float32(int32(q&3)-1)
				out[32+j] = d * float32(int32(q>>2&3)-1)
				out[64+j] = d * float32(int32(q>>4&3)-1)
				out[96+j] = d * float32(int32(q>>6)-1)
			}
		}
	}
}
