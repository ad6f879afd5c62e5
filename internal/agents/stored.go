package agents

import (
	"context"
	"errors"
	"io"

	"stackyard/internal/blob"
	"stackyard/internal/builds"
	"stackyard/internal/core"
)

// stored reads the bytes of an artifact from any place in it, part after part. What lies between is not
// read.
type stored struct {
	ctx      context.Context
	blobs    *blob.Store
	artifact builds.Artifact
	next     int64 // the byte to be read next

	open    io.ReadCloser // a part, or nil
	at, end int64         // the byte that it gives next, and the one after its last
}

// ready opens the first part, so that a failure can still be answered as one.
func (f *stored) ready() error {
	if f.artifact.FileSize == 0 {
		return nil
	}
	err := f.openPart()
	if errors.Is(err, blob.ErrNotFound) {
		return core.Errorf(core.NotFound, "The file of the artifact is gone")
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
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
	f.open, err = f.blobs.Open(f.ctx, partKey(f.artifact, part), f.next-begin, -1)
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
