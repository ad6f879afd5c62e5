package blob

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

// each runs a test on every kind of store.
func each(t *testing.T, fn func(t *testing.T, s *Store)) {
	t.Run("folder", func(t *testing.T) { fn(t, open(t, t.TempDir())) })
	t.Run("bucket", func(t *testing.T) {
		withCredentials(t)
		server := startObjectStore(t, "acme-blobs")
		fn(t, open(t, "s3://acme-blobs?endpoint="+server.URL))
	})
	t.Run("below a prefix of a bucket", func(t *testing.T) {
		withCredentials(t)
		server := startObjectStore(t, "acme-blobs")
		fn(t, open(t, "s3://acme-blobs/ci/prod?endpoint="+server.URL))
	})
}

func put(t testing.TB, s *Store, key, text string) {
	t.Helper()
	if err := s.Put(t.Context(), key, strings.NewReader(text), int64(len(text))); err != nil {
		t.Fatal(err)
	}
}

// get returns a range of an object.
func get(t testing.TB, s *Store, key string, offset, length int64) string {
	t.Helper()
	content, err := s.Open(t.Context(), key, offset, length)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	text, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// keys returns the keys below a prefix.
func keys(t testing.TB, s *Store, prefix string) []string {
	t.Helper()
	found := []string{}
	for o, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, o.Key)
	}
	return found
}

func TestPut_KeepsAndReplaces(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		put(t, s, "acme/1/log", "first")
		put(t, s, "acme/1/log", "second, and longer")
		put(t, s, "acme/1/empty", "")
		if got := get(t, s, "acme/1/log", 0, -1); got != "second, and longer" {
			t.Errorf("got %q", got)
		}
		if got := get(t, s, "acme/1/empty", 0, -1); got != "" {
			t.Errorf("got %q", got)
		}
		if size, err := s.Size(t.Context(), "acme/1/log"); err != nil || size != 18 {
			t.Errorf("size %d, %v", size, err)
		}
	})
}

func TestPut_TakesContentOfAnySizeWithoutBeingToldIt(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		for _, size := range []int{0, 1, partSize, partSize + 1} {
			content := make([]byte, size)
			rand.NewChaCha8([32]byte{}).Read(content)
			if err := s.Put(t.Context(), "big", bytes.NewReader(content), -1); err != nil {
				t.Fatal(err)
			}
			if got := get(t, s, "big", 0, -1); got != string(content) {
				t.Errorf("of %d bytes other ones came back, %d", size, len(got))
			}
		}
	})
}

func TestPut_KeepsNothingOfContentThatIsNotAsPromised(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		broken := errors.New("the line broke")
		for name, c := range map[string]struct {
			from io.Reader
			size int64
			want string
		}{
			"too short":              {strings.NewReader("1234"), 5, "only 4 of 5 bytes came"},
			"too long":               {strings.NewReader("123456"), 5, "more than 5 bytes came"},
			"too long, byte by byte": {iotest.OneByteReader(strings.NewReader("123456")), 5, "more than 5 bytes came"},
			"not empty":              {strings.NewReader("1"), 0, "more than 0 bytes came"},
			"broken":                 {io.MultiReader(strings.NewReader("12"), iotest.ErrReader(broken)), 5, "the line broke"},
			"broken, of any size":    {io.MultiReader(strings.NewReader("12"), iotest.ErrReader(broken)), -1, "the line broke"},
			"cut, of any size":       {io.MultiReader(strings.NewReader("12"), iotest.ErrReader(io.ErrUnexpectedEOF)), -1, "unexpected EOF"},
			"much too long":          {bytes.NewReader(make([]byte, 2*partSize+1)), 2 * partSize, "more than"},
		} {
			t.Run(name, func(t *testing.T) {
				err := s.Put(t.Context(), "new", c.from, c.size)
				wantError(t, err, "write new to "+s.String()+": "+c.want)
				if _, err := s.Size(t.Context(), "new"); !errors.Is(err, ErrNotFound) {
					t.Errorf("it is there: %v", err)
				}
			})
		}
	})
}

func TestPut_TakesContentThatEndsWithItsLastByte(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		if err := s.Put(t.Context(), "k", iotest.DataErrReader(strings.NewReader("12345")), 5); err != nil {
			t.Fatal(err)
		}
		if got := get(t, s, "k", 0, -1); got != "12345" {
			t.Errorf("got %q", got)
		}
	})
}

// While one goroutine replaces an object again and again, others read one version or the other completely.
func TestPut_IsSeenWholeOrNotAtAll(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		const size = 100_000
		texts := []string{strings.Repeat("a", size), strings.Repeat("b", size)}
		put(t, s, "k", texts[0])
		done := make(chan struct{})
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					if got := get(t, s, "k", 0, -1); !slices.Contains(texts, got) {
						t.Errorf("read %d bytes of two", len(got))
						return
					}
				}
			})
		}
		for i := range 40 {
			put(t, s, "k", texts[i%2])
		}
		close(done)
		readers.Wait()
	})
}

func TestOpen_ReadsRanges(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		put(t, s, "k", "0123456789")
		for _, c := range []struct {
			offset, length int64
			want           string
		}{
			{0, -1, "0123456789"}, {0, 1, "0"}, {0, 10, "0123456789"}, {0, 99, "0123456789"}, {0, 0, ""},
			{3, 4, "3456"}, {3, -1, "3456789"}, {9, 1, "9"}, {9, 5, "9"}, {1, 0, ""},
			{10, -1, ""}, {10, 1, ""}, {11, -1, ""}, {99, 5, ""},
		} {
			if got := get(t, s, "k", c.offset, c.length); got != c.want {
				t.Errorf("%d bytes from %d: %q, want %q", c.length, c.offset, got, c.want)
			}
		}
	})
}

func TestAbsentObjects(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		put(t, s, "acme/1/log", "text")
		for _, key := range []string{"nothing", "acme/1/nothing", "acme/2/log", "acme/1"} {
			if _, err := s.Size(t.Context(), key); !errors.Is(err, ErrNotFound) {
				t.Errorf("size of %s: %v", key, err)
			}
			if _, err := s.Open(t.Context(), key, 0, 0); !errors.Is(err, ErrNotFound) {
				t.Errorf("open nothing of %s: %v", key, err)
			}
		}
		for _, key := range []string{"nothing", "acme/1/nothing", "acme/2/log"} {
			if _, err := s.Open(t.Context(), key, 0, -1); !errors.Is(err, ErrNotFound) {
				t.Errorf("open %s: %v", key, err)
			}
			if err := s.Delete(t.Context(), key); err != nil {
				t.Errorf("delete %s: %v", key, err)
			}
			if err := s.DeleteAll(t.Context(), key); err != nil {
				t.Errorf("delete all below %s: %v", key, err)
			}
			if got := keys(t, s, key); len(got) != 0 {
				t.Errorf("below %s there is %q", key, got)
			}
		}
	})
}

func TestList_YieldsAllBelowAPrefixInTheOrderOfKeys(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		all := []string{"a/b-c", "a/b-c/d", "a/b/c", "a/b.c", "a/b/1/2/3", "a/b0", "a/B"}
		all = slices.DeleteFunc(all, func(k string) bool { return k == "a/b-c" }) // which is the prefix of another
		for i := range 1100 {
			all = append(all, fmt.Sprintf("a/many/%05d", i)) // more than one page of an object store
		}
		for _, key := range append([]string{"ab/c", "b/c"}, all...) {
			put(t, s, key, key)
		}
		slices.Sort(all)
		if got := keys(t, s, "a"); !slices.Equal(got, all) {
			t.Errorf("got %q\nwant %q", got[:10], all[:10])
		}
		for o, err := range s.List(t.Context(), "a") {
			if err != nil || o.Key != all[0] || o.Size != int64(len(all[0])) {
				t.Errorf("the first is %v, %v", o, err)
			}
			break
		}
	})
}

func TestDeleteAll_DeletesWhatIsBelowAPrefixOnly(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		for i := range 1100 {
			put(t, s, fmt.Sprintf("acme/1/%d", i), "")
		}
		for _, key := range []string{"acme/1/a/b", "acme/10/log", "acme/2/log"} {
			put(t, s, key, "text")
		}
		if err := s.DeleteAll(t.Context(), "acme/1"); err != nil {
			t.Fatal(err)
		}
		if got := keys(t, s, "acme"); !slices.Equal(got, []string{"acme/10/log", "acme/2/log"}) {
			t.Errorf("left are %q", got)
		}
	})
}

func TestDelete_LetsOthersWriteBesideIt(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				key := fmt.Sprintf("acme/1/2/%d", w)
				for range 25 {
					put(t, s, key, "text")
					if got := get(t, s, key, 0, -1); got != "text" {
						t.Errorf("%s holds %q", key, got)
					}
					if err := s.Delete(t.Context(), key); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
	})
}

func TestDelete_LeavesNoEmptyFolders(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "acme/1/2/log", "text")
	put(t, s, "acme/3/log", "text")
	if err := s.Delete(t.Context(), "acme/1/2/log"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "acme", "1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("acme/1 is still there: %v", err)
	}
	if err := s.DeleteAll(t.Context(), "acme/3"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestPut_FailsWhenTheFolderIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mounted")
	s := open(t, dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Put(t.Context(), "acme/1", strings.NewReader(""), 0), "no such file or directory")
}

func TestKeys(t *testing.T) {
	long := strings.Repeat("k", maxSegment)
	for key, good := range map[string]bool{
		"a": true, "acme/1/log": true, "a.b_c-D/9": true, long: true, "a..b": true,
		"": false, "/": false, "/a": false, "a/": false, "a//b": false, ".": false, "..": false, "a/../b": false,
		".hidden": false, "a/.part-1": false, "a b": false, `a\b`: false, "a\x00b": false, "ä": false, "a\xff": false,
		"C:": false, "a*": false, long + "k": false, strings.Repeat("k/", maxKey/2) + "k": false,
	} {
		if err := checkKey(key); (err == nil) != good {
			t.Errorf("%q: %v", key, err)
		}
	}
	s := open(t, t.TempDir())
	const bad = "a/../../b"
	_, openErr := s.Open(t.Context(), bad, 0, -1)
	_, sizeErr := s.Size(t.Context(), bad)
	errs := []error{s.Put(t.Context(), bad, strings.NewReader(""), 0), openErr, sizeErr, s.Delete(t.Context(), bad), s.DeleteAll(t.Context(), bad)}
	for _, err := range s.List(t.Context(), bad) {
		errs = append(errs, err)
	}
	if len(errs) != 6 {
		t.Errorf("%d calls", len(errs))
	}
	for _, err := range errs {
		wantError(t, err, `"a/../../b" is not a key`)
	}
}
