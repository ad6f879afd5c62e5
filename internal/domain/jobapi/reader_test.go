package jobapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"

	"stackyard/internal/domain/artifacts"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/blob/blobtest"
	"stackyard/internal/platform/core"
)

// storeParts stores the parts of an artifact and returns a reader.
func storeParts(t *testing.T, blobs *blob.Store, size int64, parts ...string) *artifactReader {
	t.Helper()
	a := artifacts.Artifact{ID: core.NewID(), OrganizationID: core.NewID(), PipelineID: core.NewID(), BuildID: core.NewID(), FileSize: size, Parts: len(parts)}
	for i, part := range parts {
		if err := blobs.Put(t.Context(), partKey(a, i+1), strings.NewReader(part), int64(len(part))); err != nil {
			t.Fatal(err)
		}
	}
	return &artifactReader{ctx: t.Context(), blobs: blobs, artifact: a}
}

func TestArtifactReader_ReadsPartsAsOneFile(t *testing.T) {
	blobtest.Each(t, func(t *testing.T, blobs *blob.Store) {
		for _, parts := range [][]string{{"0123456789"}, {"01234", "56789"}, {"0123", "456", "789"}} {
			f := storeParts(t, blobs, 10, parts...)
			if err := iotest.TestReader(f, []byte("0123456789")); err != nil {
				t.Errorf("%q: %v", parts, err)
			}
			f.Close()
		}
	})
}

func TestArtifactReader_ReadsNothingOfAnEmptyFile(t *testing.T) {
	blobtest.Each(t, func(t *testing.T, blobs *blob.Store) {
		f := storeParts(t, blobs, 0, "")
		if got, err := io.ReadAll(f); err != nil || len(got) > 0 {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestArtifactReader_ReportsWhenBytesAreMissing(t *testing.T) {
	blobtest.Each(t, func(t *testing.T, blobs *blob.Store) {
		for name, parts := range map[string][]string{"a short part": {"0123", "4", "789"}, "an empty part": {"0123", "", "789"}, "a short end": {"0123", "456", "7"}} {
			if got, err := io.ReadAll(storeParts(t, blobs, 10, parts...)); err != io.ErrUnexpectedEOF {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
		}
		f := storeParts(t, blobs, 10, "0123", "456", "789")
		if err := f.blobs.DeleteAll(t.Context(), f.artifact.Prefix()); err != nil {
			t.Fatal(err)
		}
		s := &Service{blobs: blobs, log: slog.New(slog.DiscardHandler)}
		if _, err := s.openArtifact(t.Context(), f.artifact); core.KindOf(err) != core.Gone {
			t.Errorf("got %v", err)
		}
	})
}

func TestStorePart_StoresOnlyWhatWasAnnounced(t *testing.T) {
	blobtest.Each(t, func(t *testing.T, blobs *blob.Store) {
		s := &Service{blobs: blobs}
		right := sha256.Sum256([]byte("right"))
		a := artifacts.Artifact{ID: core.NewID(), OrganizationID: core.NewID(), PipelineID: core.NewID(), BuildID: core.NewID(), FileSize: 5, Parts: 1, SHA256: hex.EncodeToString(right[:])}
		for name, c := range map[string]struct {
			from io.Reader
			kind core.Kind
		}{
			"another sum": {strings.NewReader("wrong"), core.Unprocessable},
			"too few":     {strings.NewReader("righ"), core.Unprocessable},
			"too many":    {strings.NewReader("right!"), core.Unprocessable},
			"none":        {strings.NewReader(""), core.Unprocessable},
			"cut off":     {iotest.ErrReader(io.ErrUnexpectedEOF), core.BadRequest},
			"a byte each": {iotest.OneByteReader(strings.NewReader("wrong")), core.Unprocessable},
		} {
			if _, err := s.storePart(t.Context(), a, 1, c.from); core.KindOf(err) != c.kind {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := blobs.Size(t.Context(), partKey(a, 1)); !errors.Is(err, blob.ErrNotFound) {
				t.Errorf("%s: something is kept: %v", name, err)
			}
		}
		if _, err := s.storePart(t.Context(), a, 1, iotest.DataErrReader(strings.NewReader("right"))); err != nil {
			t.Error(err)
		}
		if size, err := blobs.Size(t.Context(), partKey(a, 1)); size != 5 || err != nil {
			t.Errorf("kept are %d bytes, %v", size, err)
		}
	})
}

func TestPartLength_AddsUpToTheSize(t *testing.T) {
	for _, size := range []int64{0, 1, maxWholeSize, maxWholeSize + 1, 5 << 30, 10<<30 - 1} {
		parts := countParts(size)
		var all int64
		for part := range parts {
			n := partLength(size, parts, part+1)
			if n > partSize && parts > 1 {
				t.Errorf("part %d of %d bytes has %d", part+1, size, n)
			}
			all += n
		}
		if all != size {
			t.Errorf("%d parts of %d bytes have %d", parts, size, all)
		}
	}
}
