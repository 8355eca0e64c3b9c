package vec

// lanes are the eight running sums of one vector.
type lanes [8]float32

// sum adds the lanes in the package's fixed order.
func (l *lanes) sum() float32 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

// Dot returns the sum of a[i]*b[i].
func Dot(a, b []float32) float32 {
	b = b[:len(a)]
	var l lanes
	for n := dotFast(&l, a, b); n > 0; n = dotFast(&l, a, b) {
		a, b = a[n:], b[n:]
	}
	for i := range a {
		l[i%8] += float32(a[i] * b[i])
	}
	return l.sum()
}

// DotF16 returns the sum of a[i]*b[i], where b holds halves.
func DotF16(a []float32, b []uint16) float32 {
	b = b[:len(a)]
	var l lanes
	for n := dotF16Fast(&l, a, b); n > 0; n = dotF16Fast(&l, a, b) {
		a, b = a[n:], b[n:]
	}
	for i := range a {
		l[i%8] += float32(a[i] * fromHalf(b[i]))
	}
	return l.sum()
}
