package blob

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const grows = "acme/1/2/growing"

func addPiece(t testing.TB, s *Store, offset int64, text string) {
	t.Helper()
	if err := s.AddPiece(t.Context(), grows, offset, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func pieces(t testing.TB, s *Store, from, to int64) []Piece {
	t.Helper()
	found, err := s.Pieces(t.Context(), grows, from, to)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// describe lists the pieces, for example "0:abc 3:d".
func describe(t testing.TB, s *Store, from, to int64) string {
	t.Helper()
	texts := []string{}
	for _, p := range pieces(t, s, from, to) {
		content, err := s.ReadPiece(t.Context(), grows, p)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, fmt.Sprintf("%d:%s", p.Offset, content))
	}
	return strings.Join(texts, " ")
}

const everything = maxOffset

func TestPieces_ComeInTheOrderOfTheirOffsets(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		if got := describe(t, s, 0, everything); got != "" {
			t.Errorf("at first there is %s", got)
		}
		addPiece(t, s, 3, "def")
		addPiece(t, s, 0, "abc")
		addPiece(t, s, 2*MaxPiece, "far")
		addPiece(t, s, 6, "g")
		if got, want := describe(t, s, 0, everything), fmt.Sprintf("0:abc 3:def 6:g %d:far", 2*MaxPiece); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for _, c := range []struct {
			from, to int64
			want     string
		}{
			{0, 3, "0:abc"}, {0, 4, "0:abc 3:def"}, {2, 3, "0:abc"}, {3, 4, "3:def"}, {5, 6, "3:def"}, {6, 7, "6:g"}, {7, 2 * MaxPiece, ""},
			{2*MaxPiece + 2, everything, fmt.Sprintf("%d:far", 2*MaxPiece)},
		} {
			if got := describe(t, s, c.from, c.to); got != c.want {
				t.Errorf("from %d to %d there is %q, want %q", c.from, c.to, got, c.want)
			}
		}
	})
}

func TestPieces_FindsThoseThatBeginLongBeforeTheRange(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		addPiece(t, s, MaxPiece-1, strings.Repeat("x", MaxPiece))
		if found := pieces(t, s, 2*MaxPiece-2, everything); len(found) != 1 {
			t.Errorf("found %v", found)
		}
		if found := pieces(t, s, 2*MaxPiece-1, everything); len(found) != 0 {
			t.Errorf("found %v", found)
		}
	})
}

func TestRemovePieces_LeavesWhatWasAddedSince(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		addPiece(t, s, 0, "abc")
		addPiece(t, s, 3, "def")
		seen := pieces(t, s, 0, everything)
		addPiece(t, s, 6, "ghi")
		if err := s.RemovePieces(t.Context(), grows, seen); err != nil {
			t.Fatal(err)
		}
		addPiece(t, s, 9, "jkl")
		if got := describe(t, s, 6, everything); got != "6:ghi 9:jkl" {
			t.Errorf("left is %s", got)
		}
		if err := s.RemovePieces(t.Context(), grows, pieces(t, s, 0, everything)); err != nil {
			t.Fatal(err)
		}
		if got := describe(t, s, 0, everything); got != "" {
			t.Errorf("left is %s", got)
		}
		if _, err := s.ReadPiece(t.Context(), grows, seen[0]); !errors.Is(err, ErrNotFound) {
			t.Errorf("reading what was removed: %v", err)
		}
	})
}

// However adding, joining and removing interleave, an acknowledged piece is found until it is removed.
func TestPieces_AreNotLostWhileOthersAreRemoved(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		const writers, each = 4, 30
		var wait sync.WaitGroup
		done := make(chan struct{})
		removed := map[int64]bool{}
		wait.Go(func() {
			for running := true; running; {
				select {
				case <-done:
					running = false
				default:
				}
				found := pieces(t, s, 0, everything)
				for _, p := range found {
					for at := p.Offset; at < p.End(); at += 4 {
						removed[at] = true
					}
				}
				if err := s.RemovePieces(t.Context(), grows, found); err != nil {
					t.Error(err)
				}
			}
		})
		var writing sync.WaitGroup
		for w := range writers {
			writing.Go(func() {
				for i := range each {
					addPiece(t, s, int64(w*each+i)*4, "text")
				}
			})
		}
		writing.Wait()
		close(done)
		wait.Wait()
		if len(removed) != writers*each {
			t.Errorf("%d pieces were seen, of %d", len(removed), writers*each)
		}
	})
}

func TestJoinPieces_KeepsEveryByte(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		content := make([]byte, 3*MaxPiece)
		rand.NewChaCha8([32]byte{1}).Read(content)
		const size = 100_000
		for at := 0; at < len(content); at += size {
			if at == 10*size {
				continue // it comes later
			}
			if err := s.AddPiece(t.Context(), grows, int64(at), content[at:min(at+size, len(content))]); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := s.JoinPieces(t.Context(), grows, 0, everything); err != nil {
				t.Fatal(err)
			}
			if err := s.AddPiece(t.Context(), grows, 10*size, content[10*size:11*size]); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, len(content))
		found := pieces(t, s, 0, everything)
		for _, p := range found {
			piece, err := s.ReadPiece(t.Context(), grows, p)
			if err != nil {
				t.Fatal(err)
			}
			copy(got[p.Offset:], piece)
		}
		if !bytes.Equal(got, content) {
			t.Error("other bytes came back")
		}
		if _, inBucket := s.objects.(*bucket); inBucket && len(found) > 8 {
			t.Errorf("there are still %d pieces", len(found))
		}
	})
}

func TestJoinPieces_JoinsManySmallOnes(t *testing.T) {
	withCredentials(t)
	server := startObjectStore(t, "acme-blobs")
	s := open(t, "s3://acme-blobs?endpoint="+server.URL)
	for i := range int64(piecesAtMost - 1) {
		addPiece(t, s, i, "x")
	}
	for _, want := range []int{piecesAtMost - 1, 1} {
		if err := s.JoinPieces(t.Context(), grows, 0, everything); err != nil {
			t.Fatal(err)
		}
		if found := pieces(t, s, 0, everything); len(found) != want {
			t.Errorf("there are %d pieces, want %d", len(found), want)
		}
		addPiece(t, s, piecesAtMost-1, "x")
	}
}

func TestAddPiece_RefusesWhatIsNone(t *testing.T) {
	s := open(t, t.TempDir())
	for _, err := range []error{
		s.AddPiece(t.Context(), grows, 0, nil),
		s.AddPiece(t.Context(), grows, -1, []byte("x")),
		s.AddPiece(t.Context(), grows, maxOffset+1, []byte("x")),
		s.AddPiece(t.Context(), grows, 0, make([]byte, MaxPiece+1)),
		s.AddPiece(t.Context(), "..", 0, []byte("x")),
	} {
		wantError(t, err, "blob: ")
	}
}

// journal returns the path of the only journal in a folder.
func journal(t testing.TB, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, grows, "*"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	return found[0]
}

// A process that dies while it writes leaves a part of a record, cut at any byte. The next one writes to
// another file.
func TestJournal_IsReadUpToARecordThatWasCut(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	addPiece(t, s, 0, "abc")
	path := journal(t, dir)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 1; cut < len(whole); cut++ {
		if err := os.WriteFile(path, append(bytes.Clone(whole), whole[:cut]...), 0o600); err != nil {
			t.Fatal(err)
		}
		next := open(t, dir)
		addPiece(t, next, 3, "def")
		if got := describe(t, next, 0, everything); got != "0:abc 3:def" {
			t.Errorf("cut at %d: %s", cut, got)
		}
		if err := next.RemovePieces(t.Context(), grows, pieces(t, next, 3, everything)); err != nil {
			t.Fatal(err)
		}
	}
}

// After a failure a process writes to another file too.
func TestJournal_GetsNoMoreAfterAFailure(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	addPiece(t, s, 0, "abc")
	path := journal(t, dir)
	closed, err := os.Open(path) // read-only
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	if err := s.objects.(*folder).writeRecord(grows, filepath.Base(path), closed, []byte("record")); err == nil {
		t.Fatal("no failure")
	}
	addPiece(t, s, 3, "def")
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the new piece is not in a file of its own: %v", err)
	}
	if got := describe(t, s, 0, everything); got != "0:abc 3:def" {
		t.Errorf("there is %s", got)
	}
}

func TestReadPiece_ReportsDamage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	addPiece(t, s, 0, "abc")
	addPiece(t, s, 3, "def")
	path := journal(t, dir)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[headerSize] = 'X'
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadPiece(t.Context(), grows, pieces(t, s, 0, 1)[0]); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v", err)
	}
}

func FuzzJournal(f *testing.F) {
	record := append(appendHeader(nil, 7, []byte("text")), "text"...)
	f.Add([]byte{})
	f.Add(record)
	f.Add(append(record[:10], record...))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, grows), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, grows, "000000000000.writer.open"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir)
		found, err := s.Pieces(t.Context(), grows, 0, everything)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found {
			if got, err := s.ReadPiece(t.Context(), grows, p); err == nil && int64(len(got)) != p.Size {
				t.Errorf("%v has %d bytes", p, len(got))
			}
		}
		addPiece(t, s, 1, "new")
		if got := pieces(t, s, 1, 2); len(got) == 0 {
			t.Error("a new piece is not found")
		}
	})
}

// Processes that share a folder add and remove pieces at the same time.
func TestPieces_AreNotLostBetweenProcesses(t *testing.T) {
	dir := t.TempDir()
	const writers, each = 4, 50
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			s := open(t, dir)
			for i := range each {
				addPiece(t, s, int64(w*each+i)*4, "text")
			}
		})
	}
	seen := map[int64]bool{}
	look := func(s *Store) {
		found := pieces(t, s, 0, everything)
		for _, p := range found {
			seen[p.Offset] = true
		}
		if err := s.RemovePieces(t.Context(), grows, found); err != nil {
			t.Error(err)
		}
	}
	written := make(chan struct{})
	go func() {
		writing.Wait()
		close(written)
	}()
	for running := true; running; {
		select {
		case <-written:
			running = false
		default:
		}
		look(open(t, dir))
	}
	if len(seen) != writers*each {
		t.Errorf("%d pieces were seen, of %d", len(seen), writers*each)
	}
}
