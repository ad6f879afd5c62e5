package buildexports

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"sync"
	"time"

	"stackyard/internal/platform/core"
)

// putTimeout bounds writing a small file. Larger ones get a second more for each slowRate bytes.
const putTimeout, slowRate = 2 * time.Minute, 1 << 20

// writeLines writes a file with one line of JSON for each value that each yields.
func (x *export) writeLines(ctx context.Context, name string, each func(ctx context.Context, yield func(any) error) error) error {
	return x.write(ctx, name, -1, func(ctx context.Context, w io.Writer) error {
		lines := json.NewEncoder(w)
		lines.SetEscapeHTML(false)
		return each(ctx, lines.Encode)
	})
}

// errStopped ends the content of a file when the bucket takes no more of it.
var errStopped = errors.New("the bucket does not take the file")

// write writes a file of size bytes, -1 if that is not known, without keeping all of it in memory.
func (x *export) write(ctx context.Context, name string, size int64, content func(ctx context.Context, w io.Writer) error) error {
	ctx, cancel := context.WithTimeout(ctx, putTimeout+time.Duration(max(size, 0)/slowRate)*time.Second)
	defer cancel()
	from, to := io.Pipe()
	counted := &counter{to: to}
	var writing sync.WaitGroup
	writing.Go(func() {
		var err error
		defer func() { to.CloseWithError(err) }()
		defer core.CatchPanic(&err)
		err = content(ctx, counted)
	})
	err := x.bucket.Put(ctx, path.Join(x.folder, name), from, size)
	from.CloseWithError(errStopped)
	writing.Wait()
	if err == nil {
		x.files = append(x.files, file{Name: name, Size: counted.n})
	}
	return err
}

// A counter counts the bytes that are written.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}
