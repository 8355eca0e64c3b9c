package model

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// A Model is a GGUF file understood.
type Model struct {
	File *gguf.File
	Params
	Layers []Layer
	Global Global
	// Blocks are what a pass streams, in the order in which it needs them: the
	// layers, then the head. See [Model.Cut].
	Blocks []Block
	Unit   Unit // what a block is
}

// A Layer holds the tensors of one layer by role; those that the model lacks
// are nil.
type Layer [layerRoles]*Tensor

// Global holds the tensors that belong to no layer.
type Global struct {
	Embedding, OutputNorm *Tensor
	Output                *Tensor // the embedding if the model ties them
	RopeFactors           *Tensor // may be nil
	RopeLong, RopeShort   *Tensor // both or neither are nil
}

// A Tensor is a tensor of the file and the place where a pass finds it.
type Tensor struct {
	*gguf.Tensor
	// Block is the number of the block that the tensor is streamed with, and
	// Index its place in that block's Tensors. Block is -1 for vectors, such as
	// norms and biases, which are small and stay in memory, and for the
	// embedding, whose rows are read one by one.
	Block, Index int
	// Bands is how many blocks the tensor is streamed in, from Block on: bands of
	// BandRows of its rows, the last may have fewer. It is 1 where the tensor is
	// streamed whole.
	Bands, BandRows int
}

// A Block is what is loaded at once: a layer, a tensor, or a band of its rows.
type Block struct {
	Name    string // "layer 3", "output"
	Tensors []Placed
	Extents []Extent
}

// Bytes is how much of the files is read for b.
func (b *Block) Bytes() (n int64) {
	for _, e := range b.Extents {
		n += e.Size
	}
	return n
}

// Placed is a tensor in a block.
type Placed struct {
	*gguf.Tensor
	Part int   // which extent of the block it lies in
	Off  int64 // its offset in that extent
}

// An Extent is a run of bytes of one of the model's files.
type Extent struct {
	File      int // index into File.Paths
	Off, Size int64
}

// maxGap is up to how many bytes between two tensors of a block are read along
// rather than skipped: the norms and biases that lie between the matrices. One
// long read is faster than two, whatever the device.
const maxGap = 64 << 10

// New understands f, which it keeps. If f cannot be run, it fails with
// [ErrUnsupported] or [ErrModel], or with [gguf.ErrFormat] for metadata of a
// wrong type, and names the key or tensor.
func New(f *gguf.File) (*Model, error) {
	m := &Model{File: f}
	if f.BigEndian {
		return nil, fmt.Errorf("%w: a big-endian file", ErrUnsupported)
	}
	arch, err := archOf(f.Metadata)
	if err != nil {
		return nil, err
	}
	if m.Params, err = readParams(f.Metadata, arch); err != nil {
		return nil, err
	}
	a := architectures[arch]
	embd, ok := f.Tensor(a.name(Embedding))
	if !ok {
		return nil, fmt.Errorf("%w: tensor %q is missing", ErrModel, a.name(Embedding))
	}
	m.Vocab = embd.Rows()
	if err := m.takeTensors(&a); err != nil {
		return nil, err
	}
	m.Cut(UnitLayer)
	return m, nil
}

// takeTensors gives each tensor of the file its role, and refuses a file with
// tensors that have none: to run it without them would give wrong text. That
// goes before what is missing, because it tells more about a model of a kind
// that is not supported.
func (m *Model) takeTensors(a *architecture) error {
	if m.Params.Layers > len(m.File.Tensors) {
		return fmt.Errorf("%w: %d layers in a file of %d tensors", ErrModel, m.Params.Layers, len(m.File.Tensors))
	}
	m.Layers = make([]Layer, m.Params.Layers)
	taken := make(map[string]bool, len(m.File.Tensors))
	var missing error
	for l := -1; l < len(m.Layers); l++ {
		prefix, at := "", m.Global.at
		if l >= 0 {
			prefix, at = "blk."+strconv.Itoa(l)+".", func(r Role) **Tensor { return &m.Layers[l][r] }
		}
		required, optional := a.roles(&m.Params, l)
		for i, r := range slices.Concat(required, optional) {
			name := prefix + a.name(r)
			t, ok := m.File.Tensor(name)
			switch {
			case ok:
				if err := m.check(t, r); err != nil {
					return err
				}
				taken[name] = true
				*at(r) = &Tensor{Tensor: t, Block: -1}
			case i < len(required) && missing == nil:
				missing = fmt.Errorf("%w: tensor %q is missing", ErrModel, name)
			}
		}
	}
	for i := range m.File.Tensors {
		name := m.File.Tensors[i].Name
		switch {
		case taken[name] || slices.ContainsFunc(a.ignored, func(s string) bool { return strings.HasSuffix(name, s) }):
		case singleExpert.MatchString(name):
			return fmt.Errorf("%w: tensor %q is one expert alone, as in files from before April 2024: convert the model again, or download a newer file", ErrUnsupported, name)
		default:
			return fmt.Errorf("%w: tensor %q has no place in a %s model of %d layers", ErrUnsupported, name, m.Arch, m.Params.Layers)
		}
	}
	if g := &m.Global; missing == nil && (g.RopeLong == nil) != (g.RopeShort == nil) {
		missing = fmt.Errorf("%w: one of tensors %q and %q is missing", ErrModel, names[RopeLong], names[RopeShort])
	}
	if missing == nil && m.Rope.Scaling == ScalingLong && m.Global.RopeLong == nil {
		missing = fmt.Errorf("%w: metadata %q is %q, and tensor %q is missing", ErrModel, m.Arch+".rope.scaling.type", ScalingLong, names[RopeLong])
	}
	if m.Global.Output == nil && m.Global.Embedding != nil {
		m.Global.Output = &Tensor{Tensor: m.Global.Embedding.Tensor}
	}
	return missing
}

// CheckTokens returns an [ErrModel] if a vocabulary of n tokens is larger than m's
// embedding.
func (m *Model) CheckTokens(n int) error {
	if n > m.Vocab {
		return fmt.Errorf("%w: %d tokens and %d rows of embedding", ErrModel, n, m.Vocab)
	}
	return nil
}

// UsedBytes is how much of t one token is multiplied with: all, or of a tensor
// that holds the experts of a layer those that the token chooses.
func (m *Model) UsedBytes(t *gguf.Tensor) int64 {
	for l := range m.Layers {
		for _, r := range []Role{ExpertGate, ExpertUp, ExpertDown} {
			if w := m.Layers[l][r]; w != nil && w.Tensor == t { // they are not cut into bands
				return t.Size / int64(m.Experts.Count) * int64(m.Experts.Used)
			}
		}
	}
	return t.Size
}

// singleExpert matches the names of the matrices that hold all experts of a layer
// today (https://github.com/ggml-org/llama.cpp/pull/6387).
var singleExpert = regexp.MustCompile(`^blk\.\d+\.ffn_(gate|up|down)\.\d+\.weight$`)

// check reports whether t can be the tensor of role r.
func (m *Model) check(t *gguf.Tensor, r Role) error {
	cols, rows, matrices := m.shape(r)
	if want := []int{cols, rows, matrices}; !slices.Equal(trim(t.Dims), trim(want)) {
		return fmt.Errorf("%w: tensor %q is %v, not %v", ErrModel, t.Name, t.Dims, trim(want))
	}
	if r.floats() && t.Type != gguf.F32 {
		return fmt.Errorf("%w: tensor %q: a vector of type %s, not F32", ErrUnsupported, t.Name, t.Type)
	}
	return nil
}

// trim cuts dimensions of 1 off the end of a shape.
func trim(dims []int) []int {
	for len(dims) > 1 && dims[len(dims)-1] == 1 {
		dims = dims[:len(dims)-1]
	}
	return dims
}

func (g *Global) at(r Role) **Tensor {
	switch r {
	case Embedding:
		return &g.Embedding
	case OutputNorm:
		return &g.OutputNorm
	case Output:
		return &g.Output
	case RopeFactors:
		return &g.RopeFactors
	case RopeLong:
		return &g.RopeLong
	case RopeShort:
		return &g.RopeShort
	}
	panic("model: not a global role")
}

// A Unit is how much of a model makes a block.
type Unit string

// The units.
const (
	UnitLayer  Unit = "layer"  // all matrices of a layer, and the head in bands that are no larger
	UnitTensor Unit = "tensor" // each matrix by itself, large ones in bands of rows: smaller slots
)

// maxBand is the most of a matrix that is streamed at once in [UnitTensor], and
// what a head may have in [UnitLayer] where layers are smaller: with the rest of
// its first and last page it fills eight huge pages, which is as much as a device
// wants to be asked for at a time.
const maxBand = 16<<20 - 8<<10

// bandUnit is what the rows of a band are a multiple of: kernels take rows in
// such groups.
const bandUnit = 16

// Cut groups the matrices into blocks. The embedding belongs to none: a pass
// needs a row a token, which is read by itself. [New] cuts by layers; cutting
// anew changes Blocks and the places of all tensors.
func (m *Model) Cut(unit Unit) {
	m.Blocks, m.Unit = nil, unit
	for i := range m.Layers {
		name := "layer " + strconv.Itoa(i)
		var ts []*Tensor
		for r, t := range m.Layers[i] { // the roles are in the order in which a pass uses them
			if t == nil || Role(r).vector() {
				continue
			}
			if unit == UnitTensor {
				m.addBands(name+" "+names[r], t, maxBand, Role(r).grouped())
			} else {
				ts = append(ts, t)
			}
		}
		if len(ts) > 0 {
			m.addBlock(name, ts)
		}
	}
	most := int64(maxBand)
	if unit == UnitLayer { // the slots have room for a layer anyway
		for i := range m.Blocks {
			most = max(most, m.Blocks[i].Bytes())
		}
	}
	m.addBands("output", m.Global.Output, most, false)
}

// addBands adds the blocks of a tensor that is streamed by itself: one, or a
// block for each band of its rows of at most so many bytes. whole says that its
// rows are needed together.
func (m *Model) addBands(name string, t *Tensor, bytes int64, whole bool) {
	rows, row := t.Rows(), int64(t.Type.RowBytes(t.Dims[0]))
	most := int(bytes/row) / bandUnit * bandUnit
	if whole || rows <= most || most == 0 {
		m.addBlock(name, []*Tensor{t})
		return
	}
	bands := (rows + most - 1) / most
	// Even bands, so that none waits for a larger one.
	each := ((rows+bands-1)/bands + bandUnit - 1) / bandUnit * bandUnit
	first := len(m.Blocks)
	for r := 0; r < rows; r += each {
		band := *t.Tensor
		n := min(each, rows-r)
		band.Dims = []int{t.Dims[0], n}
		band.Offset, band.Size = t.Offset+int64(r)*row, int64(n)*row
		m.addBlock(name+" from row "+strconv.Itoa(r), []*Tensor{{Tensor: &band}})
	}
	t.Block, t.Index, t.Bands, t.BandRows = first, 0, len(m.Blocks)-first, each
}

func (m *Model) addBlock(name string, ts []*Tensor) {
	slices.SortFunc(ts, func(a, b *Tensor) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset))
	})
	b := Block{Name: name}
	for i, t := range ts {
		last := len(b.Extents) - 1
		if last >= 0 && b.Extents[last].File == t.File && t.Offset-(b.Extents[last].Off+b.Extents[last].Size) <= maxGap {
			b.Extents[last].Size = t.Offset + t.Size - b.Extents[last].Off
		} else {
			b.Extents = append(b.Extents, Extent{t.File, t.Offset, t.Size})
			last++
		}
		b.Tensors = append(b.Tensors, Placed{t.Tensor, last, t.Offset - b.Extents[last].Off})
		t.Block, t.Index, t.Bands, t.BandRows = len(m.Blocks), i, 1, t.Rows()
	}
	m.Blocks = append(m.Blocks, b)
}

// Vectors returns the tensors that stay in memory: norms, biases, factors.
func (m *Model) Vectors() []*Tensor {
	var vs []*Tensor
	add := func(r Role, t *Tensor) {
		if t != nil && r.vector() {
			vs = append(vs, t)
		}
	}
	for i := range m.Layers {
		for r, t := range m.Layers[i] {
			add(Role(r), t)
		}
	}
	add(OutputNorm, m.Global.OutputNorm)
	add(RopeFactors, m.Global.RopeFactors)
	add(RopeLong, m.Global.RopeLong)
	add(RopeShort, m.Global.RopeShort)
	return vs
}
