package logstream

import (
	"fmt"
	"io"
	"time"
)

// A Stamper writes through to out and adds the time before each line, in an escape sequence that terminals
// ignore.
type Stamper struct {
	out    io.Writer
	now    func() time.Time
	inLine bool
}

// NewStamper returns a stamper.
func NewStamper(out io.Writer, now func() time.Time) *Stamper {
	return &Stamper{out: out, now: now}
}

// Write writes p with the time before each line that starts in it.
func (s *Stamper) Write(p []byte) (int, error) {
	stamp := fmt.Appendf(nil, "\x1b_bk;t=%d\a", s.now().UnixMilli())
	stamped := make([]byte, 0, len(p)+len(stamp))
	for _, c := range p {
		if !s.inLine {
			stamped = append(stamped, stamp...)
		}
		stamped = append(stamped, c)
		s.inLine = c != '\n'
	}
	if _, err := s.out.Write(stamped); err != nil {
		return 0, err
	}
	return len(p), nil
}
