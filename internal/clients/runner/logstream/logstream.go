// Package logstream sends a job's log to the server while the job runs: cut into chunks, compressed,
// several at a time, and each again until it has arrived. It holds a bounded amount of memory: whoever
// writes faster than chunks can be sent has to wait.
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

// atOnce is how many chunks are being sent at a time.
const atOnce = 3

// A Stream is a log that is being sent. Its methods may be called at the same time.
type Stream struct {
	send    func(api.Chunk) error
	maxSize int

	// turn is held, for as long as it takes to find somebody who sends, by whoever changes the fields below.
	turn     chan struct{}
	current  []byte // the beginning of the next chunk
	sequence int    // of the last chunk
	offset   int64  // of current
	closed   bool

	chunks chan chunk
	stop   chan struct{}
	work   sync.WaitGroup

	failed atomic.Int32
}

// A chunk is a part of the log that is not compressed yet.
type chunk struct {
	sequence int
	offset   int64
	bytes    []byte
}

// New returns a stream whose chunks are sent when they have a size in bytes, and in any case after an
// interval. send returns when a chunk has arrived, or cannot arrive.
func New(send func(api.Chunk) error, maxSize int, interval time.Duration) *Stream {
	s := &Stream{send: send, maxSize: maxSize, turn: make(chan struct{}, 1), chunks: make(chan chunk), stop: make(chan struct{})}
	for range atOnce {
		s.work.Go(s.sendAll)
	}
	s.work.Go(func() { s.cutEvery(interval) })
	return s
}

var errClosed = errors.New("the log is closed")

// Write adds to the log.
func (s *Stream) Write(p []byte) (int, error) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
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

// Size returns how many bytes were written.
func (s *Stream) Size() int64 {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.offset + int64(len(s.current))
}

// Close sends what is left, waits until all has arrived or cannot arrive, and returns how many chunks
// did not.
func (s *Stream) Close() (failed int) {
	s.turn <- struct{}{}
	if !s.closed {
		s.closed = true
		s.cut()
		close(s.stop)
		close(s.chunks)
	}
	<-s.turn
	s.work.Wait()
	return int(s.failed.Load())
}

// cut makes a chunk of what there is, and waits until somebody is free to send it.
func (s *Stream) cut() {
	if len(s.current) == 0 {
		return
	}
	s.sequence++
	s.chunks <- chunk{s.sequence, s.offset, s.current}
	s.offset += int64(len(s.current))
	s.current = nil
}

// cutEvery makes a chunk after each interval, so that people who watch the log need not wait.
func (s *Stream) cutEvery(interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.turn <- struct{}{}
			if !s.closed {
				s.cut()
			}
			<-s.turn
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
