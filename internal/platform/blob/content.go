package blob

import (
	"fmt"
	"io"
)

// content is the content that a caller stores. It reads the promised number of bytes, and fails when there are
// fewer or more. It returns the last byte only when it is known to be the last, so that nothing is stored of a
// content that is too long.
type content struct {
	from io.Reader
	size int64 // -1: unknown
	read int64
}

// contentError is an error of the caller's content, not of the store.
type contentError struct{ err error }

func (e *contentError) Error() string { return e.err.Error() }
func (e *contentError) Unwrap() error { return e.err }

func (c *content) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.read == c.size {
		return 0, c.end()
	}
	if c.size >= 0 {
		p = p[:min(int64(len(p)), c.size-c.read)]
	}
	n, err := c.from.Read(p)
	c.read += int64(n)
	if n > 0 && c.read == c.size {
		if err := c.end(); err != io.EOF {
			return n - 1, err
		}
		return n, nil
	}
	switch {
	case err == io.EOF && c.size >= 0:
		return n, &contentError{fmt.Errorf("only %d of %d bytes came", c.read, c.size)}
	case err == io.EOF || err == nil:
		return n, err
	}
	return n, &contentError{err}
}

// end returns io.EOF when nothing follows.
func (c *content) end() error {
	var more [1]byte
	switch _, err := io.ReadFull(c.from, more[:]); err {
	case nil:
		return &contentError{fmt.Errorf("more than %d bytes came", c.size)}
	case io.EOF:
		return io.EOF
	default:
		return &contentError{err}
	}
}
