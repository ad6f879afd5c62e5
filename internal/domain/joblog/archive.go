package joblog

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sort"

	"github.com/klauspost/compress/zstd"

	"stackyard/internal/platform/blob"
)

// An archive is a sealed log: one object of zstd frames, each with a bounded number of the log's bytes,
// followed by an index in a skippable frame. `zstd -d` of the object returns all stored bytes of the log.
// Reading a range takes one request for the index and one for the frames.
type archive struct {
	blobs  *blob.Store
	key    string
	frames []frame
}

// A frame contains some bytes of the log.
type frame struct {
	raw    int64 // offset of its bytes in the log
	size   int64
	at     int64 // offset of the frame in the object
	packed int64 // size of the frame in the object
	lines  int64 // number of line ends in its bytes
}

func (f frame) end() int64 { return f.raw + f.size }

// unpack appends the bytes of a frame to a buffer.
func (f frame) unpack(packed, to []byte) ([]byte, error) {
	content, err := decoder.DecodeAll(packed, to)
	if err == nil && int64(len(content)) != f.size {
		err = fmt.Errorf("it has %d bytes in the place of %d", len(content), f.size)
	}
	return content, err
}

const (
	// frameSize is the maximum number of log bytes in a frame: what must be read for one line.
	frameSize = 256 << 10
	// maxFrames limits what an index can claim. A log of 1 GiB with a gap after every chunk has fewer frames.
	maxFrames = 1 << 20

	skippableMagic = 0x184D2A53 // little-endian, as zstd defines it
	skippableSize  = 8          // size of the header of a skippable frame
	indexVersion   = 1
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errIndex   = fmt.Errorf("the index of the archive: %w", blob.ErrDamaged)

	encoder = newEncoder()
	decoder = newDecoder()
)

// newEncoder returns an encoder for concurrent use.
func newEncoder() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(maxConcurrentSeals), zstd.WithWindowSize(frameSize))
	if err != nil {
		panic(err) // the options are valid
	}
	return e
}

// newDecoder returns a decoder for concurrent use. A damaged frame cannot make it allocate much memory.
func newDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(2*frameSize), zstd.WithDecoderConcurrency(0))
	if err != nil {
		panic(err) // the options are valid
	}
	return d
}

// appendIndex appends an index of frames: for each frame the number of missing log bytes before it, its size,
// its packed size and its lines.
func appendIndex(b []byte, frames []frame) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint32(b, skippableMagic)
	b = binary.LittleEndian.AppendUint32(b, 0) // the size, filled in below
	b = append(b, indexVersion)
	b = binary.AppendUvarint(b, uint64(len(frames)))
	var raw int64
	for _, f := range frames {
		b = binary.AppendUvarint(b, uint64(f.raw-raw))
		b = binary.AppendUvarint(b, uint64(f.size))
		b = binary.AppendUvarint(b, uint64(f.packed))
		b = binary.AppendUvarint(b, uint64(f.lines))
		raw = f.end()
	}
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start+skippableSize:], castagnoli))
	binary.LittleEndian.PutUint32(b[start+4:], uint32(len(b)-start-skippableSize))
	return b
}

// parseIndex parses the index at the end of an object.
func parseIndex(b []byte, objectSize int64) ([]frame, error) {
	const sum = 4
	if len(b) < skippableSize+1+sum || binary.LittleEndian.Uint32(b) != skippableMagic ||
		int64(binary.LittleEndian.Uint32(b[4:])) != int64(len(b)-skippableSize) {
		return nil, errIndex
	}
	body, check := b[skippableSize:len(b)-sum], binary.BigEndian.Uint32(b[len(b)-sum:])
	if crc32.Checksum(body, castagnoli) != check || body[0] != indexVersion {
		return nil, errIndex
	}
	r := &varints{left: body[1:]}
	count := r.next(maxFrames)
	frames := make([]frame, 0, min(count, int64(len(body)/4)))
	var raw, at int64
	for range count {
		f := frame{raw: raw + r.next(1<<50), at: at}
		f.size, f.packed, f.lines = r.next(frameSize), r.next(2*frameSize), r.next(frameSize)
		if r.failed || f.size == 0 || f.packed == 0 || f.raw > 1<<50 {
			return nil, errIndex
		}
		raw, at = f.end(), at+f.packed
		frames = append(frames, f)
	}
	if r.failed || len(r.left) > 0 || at+int64(len(b)) != objectSize {
		return nil, errIndex
	}
	return frames, nil
}

// varints reads consecutive numbers.
type varints struct {
	left   []byte
	failed bool
}

// next returns the next number, which must not exceed limit.
func (v *varints) next(most int64) int64 {
	n, length := binary.Uvarint(v.left)
	if length <= 0 || n > uint64(most) {
		v.failed, v.left = true, nil
		return 0
	}
	v.left = v.left[length:]
	return int64(n)
}

// openArchive reads the index of an archive.
func openArchive(ctx context.Context, blobs *blob.Store, key string, objectSize, indexSize int64) (*archive, error) {
	from, err := blobs.Open(ctx, key, objectSize-indexSize, indexSize)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	index := make([]byte, indexSize)
	if _, err := io.ReadFull(from, index); err != nil {
		return nil, fmt.Errorf("read the index of %s: %w", key, truncated(err))
	}
	frames, err := parseIndex(index, objectSize)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return &archive{blobs: blobs, key: key, frames: frames}, nil
}

// truncated converts the error for an object that is too short into ErrDamaged.
func truncated(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: it is cut", blob.ErrDamaged)
	}
	return err
}

// spans returns the ranges of the log that the archive contains.
func (a *archive) spans() []span {
	if a == nil {
		return nil
	}
	spans := make([]span, len(a.frames))
	for i, f := range a.frames {
		spans[i] = span{f.raw, f.end()}
	}
	return union(spans)
}

// find returns the index of the frame that contains a byte of the log.
func (a *archive) find(raw int64) (i int, ok bool) {
	if a == nil {
		return 0, false
	}
	i = sort.Search(len(a.frames), func(i int) bool { return a.frames[i].end() > raw })
	return i, i < len(a.frames) && a.frames[i].raw <= raw
}

// maxRequest is the number of bytes of an archive that one request reads. It prevents slow readers from keeping
// a request open for long.
const maxRequest = 2 << 20

// copy writes consecutive bytes of the log, at most up to an offset, and returns how many. Frame i contains the
// first of them.
func (a *archive) copy(ctx context.Context, w io.Writer, i int, from, to int64) (written int64, err error) {
	last := i
	for last+1 < len(a.frames) && a.frames[last].end() == a.frames[last+1].raw && a.frames[last+1].raw < to &&
		a.frames[last+1].at-a.frames[i].at < maxRequest {
		last++
	}
	length := a.frames[last].at + a.frames[last].packed - a.frames[i].at
	source, err := a.blobs.Open(ctx, a.key, a.frames[i].at, length)
	if err != nil {
		return 0, err
	}
	defer source.Close()
	var packed, content []byte
	for _, f := range a.frames[i : last+1] {
		packed = append(packed[:0], make([]byte, f.packed)...)
		if _, err := io.ReadFull(source, packed); err != nil {
			return written, fmt.Errorf("read %s: %w", a.key, truncated(err))
		}
		if content, err = f.unpack(packed, content[:0]); err != nil {
			return written, fmt.Errorf("read the frame at %d of %s: %w: %w", f.at, a.key, blob.ErrDamaged, err)
		}
		n, err := w.Write(content[max(from, f.raw)-f.raw : min(to, f.end())-f.raw])
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
