package llama

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"interlock.sh/fault"
)

// decoder reads a header front to back, counting the bytes.
type decoder struct {
	r   *bufio.Reader
	n   int64
	in  part // what is being read, for errors
	buf [8]byte
}

// part names a piece of the header: "tensor 3 of 20".
type part struct {
	name  string
	i, of int
}

// String names the part as an error does: "tensor 3 of 40".
func (p part) String() string {
	if p.of == 0 {
		return p.name
	}
	return fmt.Sprintf("%s %d of %d", p.name, p.i+1, p.of)
}

var errTooLong = fmt.Errorf("it claims more than the %d MiB a header may have", maxHeaderBytes>>20)

func (d *decoder) header() (Header, error) {
	d.in = part{name: "the first bytes"}
	head, err := d.r.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return Header{}, err
	}
	if !IsGGUF(head) {
		return Header{}, notGGUF(head)
	}
	if err := d.skip(uint64(len(magic))); err != nil {
		return Header{}, err
	}
	version, err := d.u32()
	if err != nil {
		return Header{}, err
	}
	if err := checkVersion(version); err != nil {
		return Header{}, err
	}
	d.in = part{name: "the counts"}
	tensors, err := d.count("tensors", maxTensors)
	if err != nil {
		return Header{}, err
	}
	entries, err := d.count("metadata entries", maxEntries)
	if err != nil {
		return Header{}, err
	}
	m := metadata{ints: map[string][]uint64{}, texts: map[string]string{}}
	for i := range entries {
		d.in = part{"metadata entry", i, entries}
		if err := d.entry(&m); err != nil {
			return Header{}, err
		}
	}
	h, err := m.header()
	if err != nil {
		return Header{}, err
	}
	h.Version, h.TensorCount = version, tensors
	if err := d.tensorTable(&h, m.alignment()); err != nil {
		return Header{}, err
	}
	return h, nil
}

func checkVersion(v uint32) error {
	switch {
	case v == 2 || v == 3:
		return nil
	case bits.ReverseBytes32(v) == 2 || bits.ReverseBytes32(v) == 3:
		return fault.New(fault.Invalid, "this GGUF file was written for a big-endian machine").
			WithHint("fetch the little-endian model")
	case v == 1:
		return fault.New(fault.Invalid, "this GGUF file has format version 1; 2 and 3 can be read").
			WithHint("fetch or convert the model again, llama.cpp no longer reads version 1")
	}
	return fault.New(fault.Invalid, "this GGUF file has format version %d; 2 and 3 can be read", v).
		WithHint("fetch the file again; if it is right, update interlock")
}

// tensorTable reads the table of tensors: where the data starts and how much of it there must be.
func (d *decoder) tensorTable(h *Header, align uint64) error {
	var end uint64
	for i := range h.TensorCount {
		d.in = part{"tensor", i, h.TensorCount}
		if _, err := d.text(maxName, false); err != nil {
			return err
		}
		t, err := d.tensor()
		if err != nil {
			return err
		}
		end = max(end, t)
	}
	h.DataOffset = int64((uint64(d.n) + align - 1) / align * align)
	h.DataBytes = int64(end)
	return nil
}

// maxFile bounds offsets and sizes, so that sums of them cannot overflow.
const maxFile = 1 << 50

// tensor reads one entry behind its name and gives where its data ends, from the start of the data.
func (d *decoder) tensor() (end uint64, err error) {
	dims, err := d.u32()
	if err != nil {
		return 0, err
	}
	if dims > maxDims {
		return 0, fmt.Errorf("it has %d dimensions, more than %d", dims, maxDims)
	}
	elems := uint64(1)
	for range dims {
		size, err := d.u64()
		if err != nil {
			return 0, err
		}
		hi, lo := bits.Mul64(elems, size)
		if hi != 0 || lo > maxFile {
			return 0, fmt.Errorf("it has more than %d values", int64(maxFile))
		}
		elems = lo
	}
	kind, err := d.u32()
	if err != nil {
		return 0, err
	}
	offset, err := d.u64()
	if err != nil {
		return 0, err
	}
	if offset > maxFile {
		return 0, fmt.Errorf("its data is at %d, beyond any file", offset)
	}
	// A type that is not in the table is newer than this program: then the offset alone is known.
	return offset + ggmlTypes[kind].bytes(elems), nil
}

func (d *decoder) read(n int) ([]byte, error) {
	if d.n+int64(n) > maxHeaderBytes {
		return nil, errTooLong
	}
	if _, err := io.ReadFull(d.r, d.buf[:n]); err != nil {
		return nil, err
	}
	d.n += int64(n)
	return d.buf[:n], nil
}

func (d *decoder) u32() (uint32, error) {
	b, err := d.read(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (d *decoder) u64() (uint64, error) {
	b, err := d.read(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

func (d *decoder) count(of string, limit int) (int, error) {
	n, err := d.u64()
	if err != nil {
		return 0, err
	}
	if n > uint64(limit) {
		return 0, fmt.Errorf("it claims %d %s, more than %d", n, of, limit)
	}
	return int(n), nil
}

// text reads a string of at most limit bytes, or passes over it when it is not kept.
func (d *decoder) text(limit uint64, keep bool) (string, error) {
	n, err := d.u64()
	if err != nil {
		return "", err
	}
	if n > limit {
		return "", fmt.Errorf("it has a text of %d bytes, more than %d", n, limit)
	}
	if !keep {
		return "", d.skip(n)
	}
	if d.n+int64(n) > maxHeaderBytes {
		return "", errTooLong
	}
	b := make([]byte, n) // at most limit, which is small for everything that is kept
	if _, err := io.ReadFull(d.r, b); err != nil {
		return "", err
	}
	d.n += int64(n)
	return string(b), nil
}

// skip passes over n bytes without holding them.
func (d *decoder) skip(n uint64) error {
	if n > maxHeaderBytes || d.n+int64(n) > maxHeaderBytes {
		return errTooLong
	}
	done, err := d.r.Discard(int(n))
	d.n += int64(done)
	return err
}
