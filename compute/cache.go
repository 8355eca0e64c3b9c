package compute

import (
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/layerpipe/layerpipe/compute/vec"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/ring"
)

// A KVType is the number format of cached keys and values.
type KVType string

// The formats.
const (
	KVF16 KVType = "f16"
	KVF32 KVType = "f32"
)

// A Cache is the KV cache of one sequence: the keys and values of all its
// positions in all layers. While a pass that uses it runs, it belongs to the
// compute actor. Its memory lies outside the Go heap.
type Cache struct {
	kind           KVType
	length, room   int
	layers, heads  int
	keyDim, valDim int
	mem            *ring.Memory
}

// CacheBytes is the memory that a cache of room positions takes, or an error
// if it does not fit an int.
func CacheBytes(p *model.Params, kind KVType, room int) (int64, error) {
	element := uint64(2)
	if kind == KVF32 {
		element = 4
	}
	hi, n := bits.Mul64(uint64(p.Layers)*uint64(p.KVHeads), uint64(p.HeadDim+p.VDim)*element)
	hi2, n := bits.Mul64(n, uint64(room))
	if hi != 0 || hi2 != 0 || room < 1 || int64(n) < 0 {
		return 0, fmt.Errorf("KV cache of %d positions: too large", room)
	}
	return int64(n), nil
}

// NewCache returns an empty cache with room for so many positions.
func NewCache(p *model.Params, kind KVType, room int) (*Cache, error) {
	n, err := CacheBytes(p, kind, room)
	if err != nil {
		return nil, err
	}
	mem, err := ring.Alloc(n)
	if err != nil {
		return nil, fmt.Errorf("KV cache of %d positions: %w", room, err)
	}
	return &Cache{
		kind: kind, room: room, layers: p.Layers, heads: p.KVHeads, keyDim: p.HeadDim, valDim: p.VDim, mem: mem,
	}, nil
}

// Len is the number of positions that have been computed.
func (c *Cache) Len() int { return c.length }

// Room is the number of positions that fit.
func (c *Cache) Room() int { return c.room }

// Truncate forgets all positions from n on.
func (c *Cache) Truncate(n int) { c.length = min(c.length, n) }

// Free gives the memory back. The cache must not be used any more.
func (c *Cache) Free() { c.mem.Free() }

// The elements of the cache lie as [layer][keys, values][head][position][dim],
// so that attention reads the keys of one head as one run.
func (c *Cache) at(layer, head, dim int, values bool) int {
	per := c.heads * c.room * (c.keyDim + c.valDim)
	off := layer*per + head*c.room*dim
	if values {
		off += c.heads * c.room * c.keyDim
	}
	return off
}

func (c *Cache) f16() []uint16 {
	b := c.mem.Bytes()
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2)
}

func (c *Cache) f32() []float32 {
	b := c.mem.Bytes()
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// put stores the keys and values of one position, all heads one after the other.
func (c *Cache) put(layer, pos int, k, v []float32) {
	for h := range c.heads {
		c.store(c.at(layer, h, c.keyDim, false)+pos*c.keyDim, k[h*c.keyDim:][:c.keyDim])
		c.store(c.at(layer, h, c.valDim, true)+pos*c.valDim, v[h*c.valDim:][:c.valDim])
	}
}

func (c *Cache) store(at int, x []float32) {
	if c.kind == KVF16 {
		vec.ToF16(c.f16()[at:][:len(x)], x)
		return
	}
	copy(c.f32()[at:], x)
}
