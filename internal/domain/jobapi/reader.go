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

// An artifactReader reads an artifact from any offset, part by part. It opens only the parts that it reads.
type artifactReader struct {
	ctx      context.Context
	blobs    *blob.Store
	artifact artifacts.Artifact
	offset   int64 // of the next read

	part                io.ReadCloser // the open part, or nil
	partOffset, partEnd int64         // offsets in the artifact of the part's next byte and of its end
}

// bufferedSize is the size up to which a file is read completely before its first byte is sent, so that damage
// anywhere in it still becomes an error response. For a larger file only the first block is checked.
const bufferedSize = 4 << 20

// openArtifact opens the bytes of an artifact. Reads return the bytes that were stored or an error.
func (s *Service) openArtifact(ctx context.Context, a artifacts.Artifact) (io.ReadSeekCloser, error) {
	f := &artifactReader{ctx: ctx, blobs: s.blobs, artifact: a}
	if a.FileSize == 0 {
		return f, nil
	}
	err := f.openPart()
	if err != nil || a.FileSize > bufferedSize {
		return f, s.readError(a, err)
	}
	defer f.Close()
	all, err := io.ReadAll(f)
	return memoryFile{bytes.NewReader(all)}, s.readError(a, err)
}

// OpenArtifact opens the bytes of an artifact that the server stores.
func (s *Service) OpenArtifact(ctx context.Context, a artifacts.Artifact) (io.ReadSeekCloser, error) {
	return s.openArtifact(ctx, a)
}

type memoryFile struct{ *bytes.Reader }

func (memoryFile) Close() error { return nil }

// readError returns the error response for bytes that cannot be read.
func (s *Service) readError(a artifacts.Artifact, err error) error {
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

// Seek sets the offset of the next read.
func (f *artifactReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		offset += f.artifact.FileSize
	}
	if offset < 0 {
		return 0, errors.New("jobapi: seek before the start of a file")
	}
	f.offset = offset
	return offset, nil
}

// Read reads at most to the end of a part.
func (f *artifactReader) Read(p []byte) (int, error) {
	if f.offset >= f.artifact.FileSize {
		return 0, io.EOF
	}
	if f.part == nil || f.partOffset != f.offset || f.partOffset == f.partEnd {
		if err := f.openPart(); err != nil {
			return 0, err
		}
	}
	n, err := f.part.Read(p)
	f.partOffset += int64(n)
	f.offset = f.partOffset
	switch {
	case err == io.EOF && f.partOffset < f.partEnd:
		err = io.ErrUnexpectedEOF
	case err == io.EOF:
		err = nil
	}
	return n, err
}

// openPart opens the part that contains the next byte.
func (f *artifactReader) openPart() (err error) {
	f.Close()
	part, begin, end := 1, int64(0), partLength(f.artifact.FileSize, f.artifact.Parts, 1)
	for f.offset >= end {
		part++
		begin, end = end, end+partLength(f.artifact.FileSize, f.artifact.Parts, part)
	}
	f.partOffset, f.partEnd = f.offset, end
	f.part, err = f.blobs.OpenSummed(f.ctx, partKey(f.artifact, part), f.offset-begin)
	return err
}

// Close closes the open part, if any.
func (f *artifactReader) Close() error {
	if f.part == nil {
		return nil
	}
	err := f.part.Close()
	f.part = nil
	return err
}
