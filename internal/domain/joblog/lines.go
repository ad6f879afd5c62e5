package joblog

import (
	"bytes"
	"context"
	"errors"
)

// LineOffset returns the offset in the content of a line, counted from 0, or the size of the content if it has
// fewer lines. Of a sealed log it reads one frame, for any size of the log.
func (l *Log) LineOffset(ctx context.Context, line int64) (int64, error) {
	if line > l.Size {
		return l.Size, nil
	}
	c := &lineCounter{left: line}
	for _, p := range l.parts {
		if c.left == 0 {
			return p.at, nil
		}
		var err error
		if p.marker != "" {
			_, err = c.Write([]byte(p.marker))
		} else {
			err = l.countLines(ctx, c, p)
		}
		if errors.Is(err, errFound) {
			return c.at, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return l.Size, nil
}

// countLines counts the line ends in a part of the content. It does not read frames that end before the
// requested line.
func (l *Log) countLines(ctx context.Context, c *lineCounter, p part) error {
	for raw, end := p.raw, p.raw+p.size; raw < end; {
		stop := end
		if i, ok := l.archive.find(raw); ok {
			f := l.archive.frames[i]
			if f.raw == raw && f.end() <= end && f.lines < c.left {
				c.skip(f)
				raw = f.end()
				continue
			}
			stop = min(end, f.end())
		}
		if err := l.copyRaw(ctx, c, raw, stop); err != nil {
			return err
		}
		raw = stop
	}
	return nil
}

// errFound stops reading at the start of the requested line.
var errFound = errors.New("found")

// lineCounter counts line ends up to a number.
type lineCounter struct {
	left int64 // more than 0
	at   int64 // bytes of the content seen so far
}

func (c *lineCounter) Write(b []byte) (n int, err error) {
	for c.left > 0 {
		i := bytes.IndexByte(b[n:], '\n')
		if i < 0 {
			c.at += int64(len(b) - n)
			return len(b), nil
		}
		n += i + 1
		c.at += int64(i + 1)
		c.left--
	}
	return n, errFound
}

func (c *lineCounter) skip(f frame) {
	c.left -= f.lines
	c.at += f.size
}
