package joblog

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"stackyard/internal/platform/blob/blobtest"
)

// text returns lines of a typical log.
func text(size int) []byte {
	var b bytes.Buffer
	random := rand.New(rand.NewPCG(1, 2))
	for n := 0; b.Len() < size; n++ {
		fmt.Fprintf(&b, "\x1b_bk;t=1700000%06d\x07line %d of a build, %x\r\n", n, n, random.Uint64N(1<<(4*random.UintN(10)+4)))
	}
	return b.Bytes()[:size]
}

// pack returns an archive of spans of content, and the size of its index.
func pack(t testing.TB, content []byte, spans ...span) (object []byte, indexSize int64) {
	t.Helper()
	var b bytes.Buffer
	a := &archiver{to: &b}
	for _, s := range spans {
		if err := a.seek(s.from); err != nil {
			t.Fatal(err)
		}
		for from := s.from; from < s.to; from += 100_000 {
			if _, err := a.Write(content[from:min(from+100_000, s.to)]); err != nil {
				t.Fatal(err)
			}
		}
	}
	size, indexSize, err := a.finish()
	if err != nil || size != int64(b.Len()) {
		t.Fatal(size, b.Len(), err)
	}
	return b.Bytes(), indexSize
}

func TestArchive_IsReadInAnyRange(t *testing.T) {
	blobs := blobtest.Folder(t)
	content := text(3 << 20)
	spans := []span{{0, 700_000}, {700_001, 700_002}, {1 << 20, 3 << 20}}
	object, indexSize := pack(t, content, spans...)
	if err := blobs.Put(t.Context(), "a/b", bytes.NewReader(object), -1); err != nil {
		t.Fatal(err)
	}
	a, err := openArchive(t.Context(), blobs, "a/b", int64(len(object)), indexSize)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.spans(); !slices.Equal(got, spans) {
		t.Errorf("it has %v, want %v", got, spans)
	}
	if len(object) > len(content)/3 {
		t.Errorf("%d bytes were packed into %d", len(content), len(object))
	}
	for range 200 {
		s := spans[rand.IntN(len(spans))]
		from := s.from + rand.Int64N(s.to-s.from)
		to := from + rand.Int64N(s.to-from) + 1
		var got bytes.Buffer
		for at := from; at < to; {
			i, ok := a.find(at)
			if !ok {
				t.Fatalf("nothing has the byte at %d", at)
			}
			n, err := a.copy(t.Context(), &got, i, at, to)
			if err != nil {
				t.Fatal(err)
			}
			at += n
		}
		if !bytes.Equal(got.Bytes(), content[from:to]) {
			t.Fatalf("from %d to %d there are other bytes", from, to)
		}
	}
	for _, missing := range []int64{700_000, 700_002, 1<<20 - 1, 3 << 20, 1 << 40} {
		if _, ok := a.find(missing); ok {
			t.Errorf("something has the byte at %d", missing)
		}
	}
}

func TestArchive_IsWhatZstdReads(t *testing.T) {
	content := text(1 << 20)
	object, _ := pack(t, content, span{0, 1 << 20})
	r, err := zstd.NewReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestArchive_CountsLines(t *testing.T) {
	content := text(1 << 20)
	object, indexSize := pack(t, content, span{0, 1 << 20})
	frames, err := parseIndex(object[int64(len(object))-indexSize:], int64(len(object)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		if want := bytes.Count(content[f.raw:f.end()], []byte{'\n'}); f.lines != int64(want) {
			t.Errorf("the frame at %d has %d lines, want %d", f.raw, f.lines, want)
		}
	}
}

func TestArchive_OfNothing(t *testing.T) {
	object, indexSize := pack(t, nil)
	if frames, err := parseIndex(object, indexSize); err != nil || len(frames) != 0 {
		t.Errorf("%v, %v", frames, err)
	}
}

// A damaged frame causes an error, never a panic, wrong bytes, or a large allocation.
func FuzzFrame(f *testing.F) {
	object, indexSize := pack(f, text(2000), span{0, 1000}, span{1500, 2000})
	frames, err := parseIndex(object[int64(len(object))-indexSize:], int64(len(object)))
	if err != nil {
		f.Fatal(err)
	}
	for _, one := range frames {
		f.Add(object[one.at:one.at+one.packed], one.size)
	}
	f.Fuzz(func(t *testing.T, packed []byte, size int64) {
		content, err := frame{size: size}.unpack(packed, nil)
		if err == nil && int64(len(content)) != size || len(content) > 2*frameSize {
			t.Errorf("%d bytes, want %d", len(content), size)
		}
	})
}

func FuzzIndex(f *testing.F) {
	whole, indexSize := pack(f, text(2000), span{0, 1000}, span{1500, 2000})
	f.Add(whole[int64(len(whole))-indexSize:], int64(len(whole)))
	f.Fuzz(func(t *testing.T, index []byte, size int64) {
		frames, err := parseIndex(index, size)
		if err != nil {
			return
		}
		again, err := parseIndex(appendIndex(nil, frames), size-int64(len(index))+int64(len(appendIndex(nil, frames))))
		if err != nil || !slices.Equal(frames, again) {
			t.Errorf("%v becomes %v, %v", frames, again, err)
		}
	})
}
