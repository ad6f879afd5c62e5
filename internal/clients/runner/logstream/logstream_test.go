package logstream

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stackyard/internal/clients/runner/api"
)

// A server assembles chunks.
type server struct {
	mu     sync.Mutex
	chunks []api.Chunk
	active int // chunks being received
	most   int // maximum of active
}

// receive receives a chunk slowly.
func (s *server) receive(k api.Chunk) error {
	s.mu.Lock()
	s.active++
	s.most = max(s.most, s.active)
	s.mu.Unlock()
	time.Sleep(rand.N(time.Second))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	s.chunks = append(s.chunks, k)
	return nil
}

// log returns the assembled log.
func (s *server) log(t *testing.T) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.chunks, func(a, b api.Chunk) int { return a.Sequence - b.Sequence })
	var log bytes.Buffer
	for i, k := range s.chunks {
		r, err := gzip.NewReader(bytes.NewReader(k.Gzip))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if k.Sequence != i+1 || k.Offset != int64(log.Len()) || k.Size != len(text) {
			t.Errorf("chunk %d has the sequence %d, offset %d, size %d; %d bytes at %d", i, k.Sequence, k.Offset, k.Size, len(text), log.Len())
		}
		log.Write(text)
	}
	return log.String()
}

func TestStream_SendsAllInChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		stream := New(s.receive, 100, time.Second)
		var want strings.Builder
		for i := range 500 {
			text := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", i%250))
			want.WriteString(text)
			fmt.Fprint(stream, text)
		}
		if stream.Size() != int64(want.Len()) {
			t.Errorf("size %d, want %d", stream.Size(), want.Len())
		}
		if failed := stream.Close(); failed != 0 {
			t.Errorf("%d chunks failed", failed)
		}
		if got := s.log(t); got != want.String() {
			t.Errorf("got %d bytes, want %d", len(got), want.Len())
		}
		if s.most != senders {
			t.Errorf("%d chunks were sent at once, want %d", s.most, senders)
		}
		for _, k := range s.chunks {
			if k.Size > 100 {
				t.Errorf("chunk %d has %d bytes", k.Sequence, k.Size)
			}
		}
	})
}

func TestStream_SendsWhatIsThereAfterTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		stream := New(s.receive, 100, time.Second)
		defer stream.Close()
		fmt.Fprint(stream, "working…")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := s.log(t); got != "working…" {
			t.Errorf("got %q", got)
		}
	})
}

func TestStream_MakesWritersWaitWhenNothingArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		stream := New(func(api.Chunk) error { <-open; return nil }, 10, time.Second)
		written := 0
		go func() {
			for range 100 {
				n, _ := stream.Write(make([]byte, 10))
				written += n
			}
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if most := 10 * (senders + 1); written > most {
			t.Errorf("%d bytes are in memory, want at most %d", written, most)
		}
		close(open)
		synctest.Wait()
		stream.Close()
		if written != 1000 {
			t.Errorf("%d bytes were written in the end", written)
		}
	})
}

func TestClose_CountsWhatDidNotArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream := New(func(k api.Chunk) error {
			if k.Sequence%2 == 0 {
				return errors.New("lost")
			}
			return nil
		}, 10, time.Second)
		stream.Write(make([]byte, 95))
		if failed := stream.Close(); failed != 5 {
			t.Errorf("%d chunks failed, want 5", failed)
		}
		if _, err := stream.Write([]byte("x")); err == nil {
			t.Error("a closed log takes more")
		}
		if failed := stream.Close(); failed != 5 {
			t.Errorf("closed twice: %d chunks failed, want 5", failed)
		}
	})
}

func TestStamper_WritesTheTimeBeforeEachLine(t *testing.T) {
	at := time.UnixMilli(1700000000123)
	tests := []struct {
		writes []string
		want   string
	}{
		{[]string{"one\n", "two\n"}, "@one\n@two\n"},
		{[]string{"o", "ne\r\n\r\ntw", "o"}, "@one\r\n@\r\n@two"},
		{[]string{"50%\r", "100%\r\n"}, "@50%\r100%\r\n"},
		{[]string{"", "\n"}, "@\n"},
	}
	for _, tt := range tests {
		var out bytes.Buffer
		s := NewStamper(&out, func() time.Time { return at })
		for _, text := range tt.writes {
			fmt.Fprint(s, text)
		}
		want := strings.ReplaceAll(tt.want, "@", "\x1b_bk;t=1700000000123\a")
		if out.String() != want {
			t.Errorf("%q: got %q, want %q", tt.writes, out.String(), want)
		}
	}
}
