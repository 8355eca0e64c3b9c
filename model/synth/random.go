package synth

import "encoding/binary"

// random is the generator SplitMix64 (https://doi.org/10.1145/2660193.2660195).
// Its state is a mere counter, so that a processor works on several numbers at
// once.
type random uint64

// newRandom returns the generator of one tensor of one file.
func newRandom(seed uint64, tensor int) random {
	return random(mix64(mix64(seed) + uint64(tensor)))
}

func mix64(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix64(uint64(*r))
}

// step is in how many bytes buffers are filled: several numbers at a time need
// fewer checks.
const step = 32

// fill fills p, a multiple of step bytes, with little-endian numbers.
func (r *random) fill(p []byte) {
	s := *r
	for ; len(p) >= step; p = p[step:] {
		q := p[:step]
		binary.LittleEndian.PutUint64(q, s.next())
		binary.LittleEndian.PutUint64(q[8:], s.next())
		binary.LittleEndian.PutUint64(q[16:], s.next())
		binary.LittleEndian.PutUint64(q[24:], s.next())
	}
	*r = s
}
