package blob

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// An object with checksums has a second object beside it: its number of bytes, and a CRC-32C of each of its
// blocks. So any range can be verified before it is returned.

const (
	sumBlock  = 1 << 20 // bytes
	sumSize   = 4
	sumSuffix = ".sums"
)

// PutSummed is Put with checksums: OpenSummed detects later changes of the bytes.
func (s *Store) PutSummed(ctx context.Context, key string, from io.Reader, size int64) error {
	sums := &summing{from: from}
	if err := s.Put(ctx, key, sums, size); err != nil {
		return err
	}
	list := sums.list()
	return s.Put(ctx, key+sumSuffix, bytes.NewReader(list), int64(len(list)))
}

// OpenSummed reads an object with checksums, from an offset to its end. It returns a block only when its
// checksum is correct; otherwise the error is ErrDamaged, at once for the first block. It reads an object
// without checksums as it is.
func (s *Store) OpenSummed(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	list, err := s.sums(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return s.Open(ctx, key, offset, -1)
	}
	if err != nil {
		return nil, err
	}
	size := int64(binary.LittleEndian.Uint64(list))
	r := &summed{sums: list[8:], at: offset - offset%sumBlock, size: size}
	if r.at >= size {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	if r.object, err = s.Open(ctx, key, r.at, -1); err != nil {
		return nil, err
	}
	if err := r.next(); err != nil {
		r.Close()
		return nil, fmt.Errorf("read %s of %s: %w", key, s.objects, err)
	}
	r.block = r.block[min(offset%sumBlock, int64(len(r.block))):]
	return r, nil
}

// sums returns the checksums of an object.
func (s *Store) sums(ctx context.Context, key string) ([]byte, error) {
	from, err := s.Open(ctx, key+sumSuffix, 0, -1)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	list, err := io.ReadAll(from)
	if err != nil {
		return nil, err
	}
	if len(list) < 8 || int64(len(list)-8) != blocks(binary.LittleEndian.Uint64(list))*sumSize {
		return nil, fmt.Errorf("read %s of %s: %w", key+sumSuffix, s.objects, ErrDamaged)
	}
	return list, nil
}

// blocks returns how many blocks a number of bytes has.
func blocks(size uint64) int64 { return int64((size + sumBlock - 1) / sumBlock) }

// summing is a reader that computes checksums of another reader.
type summing struct {
	from io.Reader
	size uint64
	sum  uint32 // of the current block
	done []byte
}

func (s *summing) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		part := rest[:min(len(rest), int(sumBlock-s.size%sumBlock))]
		s.sum = crc32.Update(s.sum, castagnoli, part)
		s.size += uint64(len(part))
		if s.size%sumBlock == 0 {
			s.endBlock()
		}
		rest = rest[len(part):]
	}
	return n, err
}

func (s *summing) endBlock() {
	s.done = binary.LittleEndian.AppendUint32(s.done, s.sum)
	s.sum = 0
}

// list returns the content of the checksum object.
func (s *summing) list() []byte {
	if s.size%sumBlock != 0 {
		s.endBlock()
	}
	return append(binary.LittleEndian.AppendUint64(nil, s.size), s.done...)
}

// summed reads an object block by block.
type summed struct {
	object io.ReadCloser
	sums   []byte
	at     int64  // start of the next block
	size   int64  // of the object
	buffer []byte // for a block
	block  []byte // unread part of the current block
}

func (r *summed) Read(p []byte) (int, error) {
	if len(r.block) == 0 {
		if r.at >= r.size {
			return 0, io.EOF
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.block)
	r.block = r.block[n:]
	return n, nil
}

// next reads the next block and compares it with its checksum.
func (r *summed) next() error {
	if r.buffer == nil {
		r.buffer = make([]byte, min(sumBlock, r.size-r.at))
	}
	block := r.buffer[:min(sumBlock, r.size-r.at)]
	switch _, err := io.ReadFull(r.object, block); {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return ErrDamaged // it was truncated
	case err != nil:
		return err
	}
	want := binary.LittleEndian.Uint32(r.sums[r.at/sumBlock*sumSize:])
	if crc32.Checksum(block, castagnoli) != want {
		return ErrDamaged
	}
	r.block, r.at = block, r.at+int64(len(block))
	return nil
}

func (r *summed) Close() error { return r.object.Close() }
