package jobapi

import (
	"bytes"
	"context"
	"errors"
	"io"

	"stackyard/internal/domain/artifacts"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
)

// stored reads the bytes of an artifact from any place in it, part after part. What lies between is not
// read.
type stored struct {
	ctx      context.Context
	blobs    *blob.Store
	artifact artifacts.Artifact
	next     int64 // the byte to be read next

	open    io.ReadCloser // a part, or nil
	at, end int64         // the byte that it gives next, and the one after its last
}

// heldSize is up to which size a file is read before the first byte of it is sent, so that damage anywhere in
// it can still be answered as such. Of a larger one this is only the first block.
const heldSize = 4 << 20

// openFile opens the bytes of an artifact, in a way that never gives others than those that were stored.
func (s *Service) openFile(ctx context.Context, a artifacts.Artifact) (io.ReadSeekCloser, error) {
	f := &stored{ctx: ctx, blobs: s.blobs, artifact: a}
	if a.FileSize == 0 {
		return f, nil
	}
	err := f.openPart()
	if err != nil || a.FileSize > heldSize {
		return f, s.unreadable(a, err)
	}
	defer f.Close()
	all, err := io.ReadAll(f)
	return inMemory{bytes.NewReader(all)}, s.unreadable(a, err)
}

// inMemory is a file in memory.
type inMemory struct{ *bytes.Reader }

func (inMemory) Close() error { return nil }

// unreadable says why the bytes of an artifact cannot be read.
func (s *Service) unreadable(a artifacts.Artifact, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, blob.ErrNotFound):
		s.log.Error("artifact bytes missing", "artifact", a.ID, "error", err)
		return core.Errorf(core.Gone, "The stored bytes of the artifact %s are missing", a.Path)
	case errors.Is(err, blob.ErrDamaged) || errors.Is(err, io.ErrUnexpectedEOF):
		s.log.Error("artifact bytes damaged", "artifact", a.ID, "error", err)
		return core.Errorf(core.Gone, "The stored bytes of the artifact %s are damaged: they do not match their checksum", a.Path)
	}
	return unavailable(err)
}

// Seek sets the byte to be read next.
func (f *stored) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.next
	case io.SeekEnd:
		offset += f.artifact.FileSize
	}
	if offset < 0 {
		return 0, errors.New("agents: a place before the beginning of a file")
	}
	f.next = offset
	return offset, nil
}

// Read reads no further than to the end of a part.
func (f *stored) Read(p []byte) (int, error) {
	if f.next >= f.artifact.FileSize {
		return 0, io.EOF
	}
	if f.open == nil || f.at != f.next || f.at == f.end {
		if err := f.openPart(); err != nil {
			return 0, err
		}
	}
	n, err := f.open.Read(p)
	f.at += int64(n)
	f.next = f.at
	switch {
	case err == io.EOF && f.at < f.end:
		err = io.ErrUnexpectedEOF
	case err == io.EOF:
		err = nil
	}
	return n, err
}

// openPart opens the part that the next byte is in.
func (f *stored) openPart() (err error) {
	f.Close()
	part, begin, end := 1, int64(0), sizeOf(f.artifact.FileSize, f.artifact.Parts, 1)
	for f.next >= end {
		part++
		begin, end = end, end+sizeOf(f.artifact.FileSize, f.artifact.Parts, part)
	}
	f.at, f.end = f.next, end
	f.open, err = f.blobs.OpenSummed(f.ctx, partKey(f.artifact, part), f.next-begin)
	return err
}

// Close ends the reading of a part.
func (f *stored) Close() error {
	if f.open == nil {
		return nil
	}
	err := f.open.Close()
	f.open = nil
	return err
}
