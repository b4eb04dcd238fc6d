package gguftiny

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// The value types of GGUF metadata that the writer uses.
const (
	typeUint16  uint32 = 2
	typeUint32  uint32 = 4
	typeInt32   uint32 = 5
	typeFloat32 uint32 = 6
	typeString  uint32 = 8
	typeArray   uint32 = 9
)

const (
	alignment = 32 // GGUF's default when general.alignment is absent
	tensorF32 = 0  // the ggml tensor type of 32-bit floats
)

// encoder builds one GGUF file: header, metadata, tensor table, tensor data.
type encoder struct {
	meta    bytes.Buffer
	entries uint64
	tensors []tensor
}

// tensor is a matrix in ggml's order: the first dimension is the contiguous one.
type tensor struct {
	name string
	dims []uint64
	data []float32
}

func (e *encoder) put(v any) { _ = binary.Write(&e.meta, binary.LittleEndian, v) } // a Buffer never fails

func (e *encoder) text(s string) {
	e.put(uint64(len(s)))
	e.meta.WriteString(s)
}

// kv appends one metadata entry; the kind follows the Go type of v.
func (e *encoder) kv(key string, v any) {
	e.entries++
	e.text(key)
	switch v := v.(type) {
	case uint16:
		e.put(typeUint16)
		e.put(v)
	case uint32:
		e.put(typeUint32)
		e.put(v)
	case int32:
		e.put(typeInt32)
		e.put(v)
	case float32:
		e.put(typeFloat32)
		e.put(v)
	case string:
		e.put(typeString)
		e.text(v)
	case []string:
		e.array(typeString, len(v))
		for _, s := range v {
			e.text(s)
		}
	case []float32:
		e.array(typeFloat32, len(v))
		e.put(v)
	case []int32:
		e.array(typeInt32, len(v))
		e.put(v)
	default:
		panic(fmt.Sprintf("gguftiny: no GGUF type for %T", v))
	}
}

func (e *encoder) array(elem uint32, n int) {
	e.put(typeArray)
	e.put(elem)
	e.put(uint64(n))
}

// encode is the whole file.
func (e *encoder) encode() []byte {
	var table, data encoder
	for _, t := range e.tensors {
		table.text(t.name)
		table.put(uint32(len(t.dims)))
		table.put(t.dims)
		table.put(uint32(tensorF32))
		table.put(uint64(data.meta.Len()))
		for _, f := range t.data {
			data.put(math.Float32bits(f))
		}
		pad(&data.meta)
	}
	var out encoder
	out.meta.WriteString("GGUF")
	out.put(uint32(3))
	out.put(uint64(len(e.tensors)))
	out.put(e.entries)
	out.meta.Write(e.meta.Bytes())
	out.meta.Write(table.meta.Bytes())
	pad(&out.meta)
	out.meta.Write(data.meta.Bytes())
	return out.meta.Bytes()
}

func pad(b *bytes.Buffer) {
	if rest := b.Len() % alignment; rest != 0 {
		b.Write(make([]byte, alignment-rest))
	}
}
