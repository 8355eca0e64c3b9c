package dequant

import (
	"fmt"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/ring"
)

// A Form is what the dequantizer makes of a tensor.
type Form uint8

// The forms.
const (
	Keep       Form = iota // as it is in the file
	Expand                 // float32 values
	Interleave             // the same bytes, with groups of rows interleaved into panels
)

// A Tensor is a matrix in a loaded block, and the form that compute wants it in.
type Tensor struct {
	Name       string // for errors
	Type       gguf.Type
	Rows, Cols int
	Part       int   // the part of the loaded block that it lies in
	Off        int64 // and its offset there
	Form       Form
}

// Bytes is the size of the tensor as loaded.
func (t *Tensor) Bytes() int64 { return int64(t.Rows) * int64(t.Type.RowBytes(t.Cols)) }

// PreparedBytes is the size of the tensor in its form.
func (t *Tensor) PreparedBytes() int64 {
	if t.Form == Expand {
		return 4 * int64(t.Rows) * int64(t.Cols)
	}
	return t.Bytes()
}

// cacheLine is the alignment of tensors in work and pin areas.
const cacheLine = 64

// A Plan says where the prepared tensors of every block lie: those that are
// kept or interleaved stay where they were loaded, expanded ones lie in the
// slot's work area; those of a pinned block all lie in its pin.
type Plan struct {
	blocks [][]Tensor
	work   [][]int64 // offset in the work area, -1 for those that stay in the load area
	pin    [][]int64 // offset in a pin
	size   []size
}

type size struct{ work, pin int64 }

// NewPlan lays out blocks, each a list of tensors. A tensor that is to be
// expanded and cannot be is an [ErrUnsupported].
func NewPlan(blocks [][]Tensor) (*Plan, error) {
	p := &Plan{blocks: blocks, size: make([]size, len(blocks))}
	for b, ts := range blocks {
		work, pin := make([]int64, len(ts)), make([]int64, len(ts))
		var sz size
		for i := range ts {
			t := &ts[i]
			if t.Form == Expand {
				if err := Float32(t.Type, nil, nil); err != nil {
					return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
				}
			}
			n := (t.PreparedBytes() + cacheLine - 1) / cacheLine * cacheLine
			pin[i] = sz.pin
			sz.pin += n
			work[i] = -1
			if t.Form == Expand {
				work[i] = sz.work
				sz.work += n
			}
		}
		p.work, p.pin, p.size[b] = append(p.work, work), append(p.pin, pin), sz
	}
	return p, nil
}

// Tensor returns tensor i of block b.
func (p *Plan) Tensor(b, i int) *Tensor { return &p.blocks[b][i] }

// WorkBytes is the size of the work area that a slot needs for block b.
func (p *Plan) WorkBytes(b int) int64 { return p.size[b].work }

// PinBytes is the size of a pin that holds block b.
func (p *Plan) PinBytes(b int) int64 { return p.size[b].pin }

// InSlot returns tensor i of the block that s holds, once it is prepared there.
// The bytes are the slot's.
func (p *Plan) InSlot(s *ring.Slot, i int) []byte {
	t := &p.blocks[s.Block][i]
	if off := p.work[s.Block][i]; off >= 0 {
		return s.Work()[off:][:t.PreparedBytes()]
	}
	return s.Parts[t.Part][t.Off:][:t.Bytes()]
}

// InPin returns tensor i of block b in its pin.
func (p *Plan) InPin(b, i int, pin []byte) []byte {
	return pin[p.pin[b][i]:][:p.blocks[b][i].PreparedBytes()]
}
