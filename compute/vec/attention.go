package vec

// A Group is a run of attention for the query heads that share one head of keys
// and values: each key or value is read once for all of them. Key or value j is
// the Dim elements from j*Stride on. Head h's query, or output, is the Dim
// elements from h*Dim on; its scores, or weights, are the Len elements from
// h*Row on.
//
// The heads may belong to several tokens, as long as all of them see the run.
// A cache is walked in runs that stay in the processor's cache.
type Group struct {
	Heads  int // query heads
	Dim    int // elements of a head
	Len    int // keys or values
	Stride int // elements from one key or value to the next
	Row    int // elements from one head's scores to the next head's
}

// Scores sets score j of head h to Dot(query h, key j) * scale.
func (g Group) Scores(scores, queries, keys []float32, scale float32) {
	for h := range g.Heads {
		q := queries[h*g.Dim:][:g.Dim]
		row := scores[h*g.Row:][:g.Len]
		for j := range row {
			row[j] = float32(Dot(q, keys[j*g.Stride:][:g.Dim]) * scale)
		}
	}
}

// ScoresF16 is [Group.Scores] for keys that are halves.
func (g Group) ScoresF16(scores, queries []float32, keys []uint16, scale float32) {
	for h := range g.Heads {
		q := queries[h*g.Dim:][:g.Dim]
		row := scores[h*g.Row:][:g.Len]
		for j := range row {
			row[j] = float32(DotF16(q, keys[j*g.Stride:][:g.Dim]) * scale)
		}
	}
}

// Mix adds to head h's output the values, each times its weight of head h, in
// the order of j, each as by [AddScaled].
func (g Group) Mix(out, weights, values []float32) {
	for h := range g.Heads {
		o := out[h*g.Dim:][:g.Dim]
		for j, w := range weights[h*g.Row:][:g.Len] {
			AddScaled(o, values[j*g.Stride:][:g.Dim], w)
		}
	}
}

// MixF16 is [Group.Mix] for values that are halves.
func (g Group) MixF16(out, weights []float32, values []uint16) {
	for h := range g.Heads {
		o := out[h*g.Dim:][:g.Dim]
		for j, w := range weights[h*g.Row:][:g.Len] {
			AddScaledF16(o, values[j*g.Stride:][:g.Dim], w)
		}
	}
}
