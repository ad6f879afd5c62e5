package joblog

import (
	"bytes"
	"io"
)

// An archiver writes an archive.
type archiver struct {
	to      io.Writer
	frames  []frame
	pending []byte // bytes of the log not written yet, less than a frame
	raw     int64  // their offset in the log
	at      int64  // bytes of the object written so far
	packed  []byte
}

// seek sets the offset in the log of the next bytes.
func (a *archiver) seek(raw int64) error {
	if raw == a.raw+int64(len(a.pending)) {
		return nil
	}
	err := a.flush()
	a.raw = raw
	return err
}

// Write appends bytes of the log.
func (a *archiver) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		taken := min(len(b), frameSize-len(a.pending))
		a.pending = append(a.pending, b[:taken]...)
		b, n = b[taken:], n+taken
		if len(a.pending) == frameSize {
			if err := a.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// flush writes pending bytes as a frame.
func (a *archiver) flush() error {
	if len(a.pending) == 0 {
		return nil
	}
	a.packed = encoder.EncodeAll(a.pending, a.packed[:0])
	f := frame{
		raw: a.raw, size: int64(len(a.pending)), at: a.at, packed: int64(len(a.packed)),
		lines: int64(bytes.Count(a.pending, []byte{'\n'})),
	}
	a.frames = append(a.frames, f)
	a.raw, a.at, a.pending = f.end(), a.at+f.packed, a.pending[:0]
	_, err := a.to.Write(a.packed)
	return err
}

// finish writes pending bytes and the index, and returns the sizes of the object and of the index.
func (a *archiver) finish() (objectSize, indexSize int64, err error) {
	if err := a.flush(); err != nil {
		return 0, 0, err
	}
	index := appendIndex(nil, a.frames)
	if _, err := a.to.Write(index); err != nil {
		return 0, 0, err
	}
	return a.at + int64(len(index)), int64(len(index)), nil
}
