package joblog

import (
	"bytes"

	"io"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// ChunkParams are the query parameters of a request that brings a chunk.
var ChunkParams = []route.Param{
	{Name: "sequence", Type: "integer", Doc: "The number of the chunk."},
	{Name: "offset", Type: "integer", Doc: "Where its bytes begin in the whole log, before compression."},
	{Name: "size", Type: "integer", Doc: "How many bytes it has before compression."},
}

// maxOffset is larger than any log.
const maxOffset = 1 << 46

// maxPacked is the size limit of a body with a chunk. gzip makes incompressible data slightly larger.
const maxPacked = maxChunk + maxChunk/64

// Receive adds the chunk of a request to a job's log. The body contains the bytes, gzipped or not, and the
// query their position. The caller has checked that the request can write to the log.
func (s *Service) Receive(r *route.Request, job Job) error {
	c, size, err := parseChunk(r.URL.Query())
	if err != nil {
		return err
	}
	body, err := r.ReadBody(maxPacked)
	if core.KindOf(err) == core.TooSlow {
		// Agents give up a chunk after a client error, but this one may be caused by the network.
		return core.Errorf(core.Unavailable, "The chunk did not arrive in time; send it again")
	}
	if err != nil {
		return err
	}
	buffer := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buffer)
	buffer.Reset()
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "gzip":
		if err := unpack(buffer, body, size); err != nil {
			return err
		}
		body = buffer.Bytes()
	case "", "identity":
	default:
		return core.Errorf(core.BadRequest, "Content-Encoding must be gzip, or absent")
	}
	if int64(len(body)) != size {
		return core.Errorf(core.BadRequest, "size is %d, but the chunk has %d bytes", size, len(body))
	}
	return s.Append(r.Context(), job, c, body)
}

// parseChunk parses the position of a chunk and its size.
func parseChunk(query url.Values) (c Chunk, size int64, err error) {
	for _, p := range []struct {
		name string
		to   *int64
		most int64
	}{{"sequence", &c.Sequence, maxOffset}, {"offset", &c.Offset, maxOffset}, {"size", &size, maxOffset}} {
		n, err := strconv.ParseUint(query.Get(p.name), 10, 63)
		if err != nil || int64(n) > p.most {
			return c, 0, core.Errorf(core.BadRequest, "%s must be an integer from 0 to %d", p.name, p.most)
		}
		*p.to = int64(n)
	}
	if size > maxChunk {
		return c, 0, core.Errorf(core.TooLarge, "A chunk has at most %d bytes, not %d", maxChunk, size)
	}
	return c, size, nil
}

var (
	buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	readers = sync.Pool{New: func() any { return new(gzip.Reader) }}
)

// unpack unpacks a chunk of size bytes. It reads little more than that, whatever the input claims.
func unpack(to *bytes.Buffer, packed []byte, size int64) error {
	reader := readers.Get().(*gzip.Reader)
	defer readers.Put(reader)
	if err := reader.Reset(bytes.NewReader(packed)); err != nil {
		return errGzip
	}
	to.Grow(int(size) + bytes.MinRead)
	if _, err := io.Copy(to, io.LimitReader(reader, size+1)); err != nil {
		return errGzip
	}
	return nil
}

var errGzip = core.Errorf(core.BadRequest, "The chunk is not gzip, as its Content-Encoding says")
