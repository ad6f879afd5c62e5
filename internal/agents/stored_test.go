package agents

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"stackyard/internal/blob"
	"stackyard/internal/builds"
	"stackyard/internal/core"
)

// keepParts puts the parts of an artifact into a store.
func keepParts(t *testing.T, size int64, parts ...string) *stored {
	t.Helper()
	blobs, err := blob.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := builds.Artifact{ID: core.NewID(), OrganizationID: core.NewID(), PipelineID: core.NewID(), BuildID: core.NewID(), FileSize: size, Parts: len(parts)}
	for i, part := range parts {
		if err := blobs.Put(t.Context(), partKey(a, i+1), strings.NewReader(part), int64(len(part))); err != nil {
			t.Fatal(err)
		}
	}
	return &stored{ctx: t.Context(), blobs: blobs, artifact: a}
}

func TestStored_ReadsPartsAsOneFile(t *testing.T) {
	for _, parts := range [][]string{{"0123456789"}, {"01234", "56789"}, {"0123", "456", "789"}} {
		f := keepParts(t, 10, parts...)
		if err := f.ready(); err != nil {
			t.Fatal(err)
		}
		if err := iotest.TestReader(f, []byte("0123456789")); err != nil {
			t.Errorf("%q: %v", parts, err)
		}
		f.Close()
	}
}

func TestStored_ReadsNothingOfAnEmptyFile(t *testing.T) {
	f := keepParts(t, 0, "")
	if err := f.ready(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); err != nil || len(got) > 0 {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestStored_TellsWhenBytesAreMissing(t *testing.T) {
	for name, parts := range map[string][]string{"a short part": {"0123", "4", "789"}, "an empty part": {"0123", "", "789"}, "a short end": {"0123", "456", "7"}} {
		if got, err := io.ReadAll(keepParts(t, 10, parts...)); err != io.ErrUnexpectedEOF {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	f := keepParts(t, 10, "0123", "456", "789")
	if err := f.blobs.DeleteAll(t.Context(), f.artifact.Prefix()); err != nil {
		t.Fatal(err)
	}
	if err := f.ready(); core.KindOf(err) != core.NotFound {
		t.Errorf("got %v", err)
	}
}

func TestSizeOf_SharesOutAllBytes(t *testing.T) {
	for _, size := range []int64{0, 1, wholeSize, wholeSize + 1, 5 << 30, 10<<30 - 1} {
		parts := partsOf(size)
		var all int64
		for part := range parts {
			n := sizeOf(size, parts, part+1)
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
