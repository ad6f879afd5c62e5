package joblog

import (
	"bytes"
	"context"
	"errors"

	"stackyard/internal/rules/logline"
)

const (
	// MaxRows is how many lines one call of Rows returns.
	MaxRows = 1000
	// lookBack is how many lines before the first row are read, for the styles and times that it takes over.
	lookBack = 100
	// maxRowBytes limits the bytes that one call of Rows reads, and maxRowHTML the size of its rows. Only logs with
	// very long lines reach them.
	maxRowBytes = 16 << 20
	maxRowHTML  = 4 << 20
)

// A Row is a line of a log, numbered from 0.
type Row struct {
	Number int64
	logline.Line
}

// Generation counts how often the log was deleted while its job ran. Lines of different generations have nothing to do
// with each other.
func (l *Log) Generation() int64 { return l.record.generation }

// Lines returns the number of lines. A last line without a line end counts.
func (l *Log) Lines(ctx context.Context) (int64, error) {
	if l.Size == 0 {
		return 0, nil
	}
	if !l.framed() {
		s, err := l.scan(ctx)
		if err != nil {
			return 0, err
		}
		return s.lines, nil
	}
	var lines int64
	for _, p := range l.parts {
		if p.marker != "" {
			lines += int64(bytes.Count([]byte(p.marker), []byte{'\n'}))
			continue
		}
		n, err := l.linesIn(ctx, p)
		if err != nil {
			return 0, err
		}
		lines += n
	}
	var last bytes.Buffer
	err := l.Copy(ctx, &last, l.Size-1, l.Size)
	if err == nil && last.String() != "\n" {
		lines++
	}
	return lines, err
}

// framed reports whether the archive, whose index counts lines, has the whole log.
func (l *Log) framed() bool { return l.archive != nil && l.record.settled }

// linesIn returns the number of line ends in a part, mostly from the index.
func (l *Log) linesIn(ctx context.Context, p part) (lines int64, err error) {
	for raw, end := p.raw, p.raw+p.size; raw < end; {
		i, ok := l.archive.find(raw)
		stop := end
		if ok {
			f := l.archive.frames[i]
			if f.raw == raw && f.end() <= end {
				lines += f.lines
				raw = f.end()
				continue
			}
			stop = min(end, f.end())
		}
		c := &lineCounter{left: 1 << 62}
		if err := l.copyRaw(ctx, c, raw, stop); err != nil {
			return 0, err
		}
		lines += 1<<62 - c.left
		raw = stop
	}
	return lines, nil
}

// offsetOf returns the offset of a line without reading what is far before it.
func (l *Log) offsetOf(ctx context.Context, line int64) (int64, error) {
	if line <= 0 {
		return 0, nil
	}
	if l.framed() {
		return l.LineOffset(ctx, line)
	}
	s, err := l.scan(ctx)
	if err != nil {
		return 0, err
	}
	from := s.markBefore(line)
	if from.line == line {
		return from.offset, nil
	}
	c := &lineCounter{left: line - from.line, at: from.offset}
	if err := l.Copy(ctx, c, from.offset, l.Size); !errors.Is(err, errFound) {
		return l.Size, err
	}
	return c.at, nil
}

// Rows returns up to count lines from a line on, rendered as HTML. Its cost does not depend on the size of the log
// or on the line.
func (l *Log) Rows(ctx context.Context, from int64, count int) ([]Row, error) {
	if from < 0 || count <= 0 || l.Size == 0 {
		return nil, nil
	}
	start := max(0, from-lookBack)
	offset, err := l.offsetOf(ctx, start)
	if err != nil {
		return nil, err
	}
	r := &rowReader{from: from, count: min(count, MaxRows), number: start}
	if err := l.Copy(ctx, r, offset, l.Size); err != nil && !errors.Is(err, errFound) {
		return nil, err
	}
	r.end()
	return r.rows, nil
}

// rowReader renders the lines that are written to it.
type rowReader struct {
	from   int64
	count  int
	number int64 // of the line in partial

	renderer logline.Renderer
	partial  []byte // of the current line, up to the limit of the renderer
	dropped  int    // bytes of the current line that partial lacks
	started  bool   // the current line has bytes
	read     int
	html     int
	rows     []Row
}

func (r *rowReader) Write(b []byte) (n int, err error) {
	for n < len(b) {
		i := bytes.IndexByte(b[n:], '\n')
		if i < 0 {
			r.add(b[n:])
			r.read += len(b) - n
			n = len(b)
			break
		}
		r.add(b[n : n+i])
		r.read += i + 1
		n += i + 1
		r.finish()
		if len(r.rows) == r.count {
			return n, errFound
		}
	}
	if r.read > maxRowBytes {
		return n, errFound
	}
	return n, nil
}

func (r *rowReader) add(b []byte) {
	fits := min(len(b), logline.MaxLine+1-len(r.partial))
	r.partial = append(r.partial, b[:fits]...)
	r.dropped += len(b) - fits
	r.started = r.started || len(b) > 0
}

// finish ends the current line.
func (r *rowReader) finish() {
	line := bytes.TrimSuffix(r.partial, []byte{'\r'})
	if r.number < r.from {
		r.renderer.Skip(line[:min(len(line), logline.MaxLine)])
	} else {
		row := Row{Number: r.number, Line: r.renderer.Line(line)}
		if r.html += len(row.HTML); r.html > maxRowHTML {
			row.HTML = `<span class="cut">This line is too long to be shown here.</span>`
		}
		r.rows = append(r.rows, row)
	}
	r.number++
	r.partial, r.dropped, r.started = r.partial[:0], 0, false
}

// end ends the last line, if it has no line end.
func (r *rowReader) end() {
	if r.started && len(r.rows) < r.count {
		r.finish()
	}
}
