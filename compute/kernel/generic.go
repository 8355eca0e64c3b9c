package kernel

import (
	"encoding/binary"

	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/model/gguf"
)

// mulGeneric is [Mul] in portable Go: the definition of the numbers that every
// other kernel must give, and what runs where there is no other kernel.
func mulGeneric(dst []float32, ldd int, w *Matrix, a *Acts, r0, r1 int) {
	ws := workspaces.Get().(*workspace)
	defer workspaces.Put(ws)
	for r := r0; r < r1; r++ {
		switch a.form {
		case formFloat:
			floatRow(dst[r:], ldd, w, a, r)
		case form32:
			blockRow(dst[r:], ldd, w, a, ws, r)
		case form256:
			superRow(dst[r:], ldd, w, a, ws, r)
		}
	}
}

// floatRow multiplies row r with all columns, in eight lanes.
func floatRow(dst []float32, ldd int, w *Matrix, a *Acts, r int) {
	nb, size := w.blocks()
	size *= nb
	row := w.Data[r*size:][:size]
	for c := range a.n {
		var s [8]float32
		for i, x := range a.f32[c*a.k:][:a.k] {
			var v float32
			switch w.Type {
			case gguf.F32:
				v = f32At(row, 4*i)
			case gguf.F16:
				v = f16At(row, 2*i)
			case gguf.BF16:
				v = dequant.BF16ToF32(binary.LittleEndian.Uint16(row[2*i:]))
			}
			s[i%8] += float32(v * x)
		}
		dst[c*ldd] = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
	}
}

// blockRow multiplies row r of a type with blocks of 32 with all columns.
func blockRow(dst []float32, ldd int, w *Matrix, a *Acts, ws *workspace, r int) {
	b := &ws.block
	minimum := w.Type == gguf.Q4_1 || w.Type == gguf.Q5_1
	for c := range a.n {
		dst[c*ldd] = 0
	}
	nb, _ := w.blocks()
	for i := range nb {
		ws.unpack(w, r, i)
		for c := range a.n {
			off, stride := a.column(c)
			rec := (*[rec32]byte)(a.recs[off+i*stride:])
			acc := dst[c*ldd]
			sum := dot(b.q[:32], rec[:32])
			acc += float32(float32(sum) * float32(b.d*f32At(rec[:], rec32D)))
			if minimum {
				acc += float32(b.dmin * f32At(rec[:], rec32DS))
			}
			dst[c*ldd] = acc
		}
	}
}

// superRow multiplies row r of a type with super-blocks of 256 with all
// columns.
func superRow(dst []float32, ldd int, w *Matrix, a *Acts, ws *workspace, r int) {
	b := &ws.block
	minimum := w.Type == gguf.Q2_K || w.Type == gguf.Q4_K || w.Type == gguf.Q5_K
	for c := range a.n {
		dst[c*ldd] = 0
	}
	nb, _ := w.blocks()
	for i := range nb {
		ws.unpack(w, r, i)
		for c := range a.n {
			off, stride := a.column(c)
			rec := (*[rec256]byte)(a.recs[off+i*stride:])
			var sum, sumMin int32
			for j := range 16 {
				sum += b.scale[j] * dot(b.q[16*j:16*j+16], rec[16*j:16*j+16])
				sumMin += b.floor[j] * int32(int16At(rec[:], rec256S16+2*j))
			}
			v := float32(b.d * float32(sum))
			if minimum {
				v -= float32(b.dmin * float32(sumMin))
			}
			dst[c*ldd] += float32(f32At(rec[:], rec256D) * v)
		}
	}
}

func dot(w []int8, q []byte) (sum int32) {
	q = q[:len(w)]
	for i, v := range w {
		sum += int32(v) * int32(int8(q[i]))
	}
	return sum
}

// unpack takes block i of row r apart, whatever the layout.
func (ws *workspace) unpack(w *Matrix, r, i int) {
	f := familyOf(w.Type)
	nb, size := w.blocks()
	src := w.Data[(r*nb+i)*size:][:size]
	if w.Layout == Panels && r < w.Rows&^7 {
		src = ws.rows[:size]
		takeOut(f, src, w.Data[(r&^7*nb+8*i)*size:][:8*size], r%8)
	}
	f.unpack(&ws.block, src)
}
