// Package logstream sends a job's log to the server while the job runs: in compressed chunks, several at a
// time, each retried until it arrives. Memory is bounded: writers wait when chunks cannot be sent fast enough.
package logstream

import (
	"bytes"
	"compress/gzip"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"stackyard/internal/clients/runner/api"
)

// senders is the number of chunks that are sent concurrently.
const senders = 3

// A Stream sends a log. Its methods are safe for concurrent use.
type Stream struct {
	send    func(api.Chunk) error
	maxSize int

	// lock guards the fields below. It is held while a chunk waits for a free sender.
	lock     chan struct{}
	current  []byte // the start of the next chunk
	sequence int    // of the last chunk
	offset   int64  // of current
	closed   bool

	chunks chan chunk
	stop   chan struct{}
	work   sync.WaitGroup

	failed atomic.Int32
}

// A chunk is an uncompressed part of the log.
type chunk struct {
	sequence int
	offset   int64
	bytes    []byte
}

// New returns a stream that sends a chunk when it has maxSize bytes, and at least every interval. send returns
// when a chunk has arrived or cannot arrive.
func New(send func(api.Chunk) error, maxSize int, interval time.Duration) *Stream {
	s := &Stream{send: send, maxSize: maxSize, lock: make(chan struct{}, 1), chunks: make(chan chunk), stop: make(chan struct{})}
	for range senders {
		s.work.Go(s.sendAll)
	}
	s.work.Go(func() { s.cutEvery(interval) })
	return s
}

var errClosed = errors.New("the log is closed")

// Write appends to the log.
func (s *Stream) Write(p []byte) (int, error) {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	if s.closed {
		return 0, errClosed
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), s.maxSize-len(s.current))
		s.current = append(s.current, rest[:n]...)
		rest = rest[n:]
		if len(s.current) == s.maxSize {
			s.cut()
		}
	}
	return len(p), nil
}

// Size returns the number of bytes written.
func (s *Stream) Size() int64 {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	return s.offset + int64(len(s.current))
}

// Close sends the rest, waits until all chunks have arrived or failed, and returns how many failed.
func (s *Stream) Close() (failed int) {
	s.lock <- struct{}{}
	if !s.closed {
		s.closed = true
		s.cut()
		close(s.stop)
		close(s.chunks)
	}
	<-s.lock
	s.work.Wait()
	return int(s.failed.Load())
}

// cut converts the current bytes into a chunk and waits for a free sender.
func (s *Stream) cut() {
	if len(s.current) == 0 {
		return
	}
	s.sequence++
	s.chunks <- chunk{s.sequence, s.offset, s.current}
	s.offset += int64(len(s.current))
	s.current = nil
}

// cutEvery cuts a chunk every interval, so that the live log stays current.
func (s *Stream) cutEvery(interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.lock <- struct{}{}
			if !s.closed {
				s.cut()
			}
			<-s.lock
		case <-s.stop:
			return
		}
	}
}

func (s *Stream) sendAll() {
	for c := range s.chunks {
		err := s.send(api.Chunk{Sequence: c.sequence, Offset: c.offset, Size: len(c.bytes), Gzip: compress(c.bytes)})
		if err != nil {
			s.failed.Add(1)
		}
	}
}

// compress cannot fail: it writes to memory.
func compress(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(text)
	w.Close()
	return b.Bytes()
}
