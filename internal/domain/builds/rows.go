package builds

import (
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"stackyard/internal/platform/db"
)

// rows are inserted many at a time: a build of thousands of jobs takes a few dozen statements. A
// statement has the same text each time it is full, so it is prepared once.
type rows struct {
	into, after string
	values      [][]any
}

// newRows begins an insert; into ends in VALUES, after follows the values.
func newRows(into, after string) *rows { return &rows{into: into, after: after} }

func (r *rows) add(values ...any) { r.values = append(r.values, values) }

// maxArgs bounds the arguments of one statement, below what either engine takes.
const maxArgs = 500

// maxRows bounds the rows of one statement: more make it slower to parse than to run.
const maxRows = 100

func (r *rows) insert(q *db.Q) error {
	if len(r.values) == 0 {
		return nil
	}
	width := len(r.values[0])
	size := min(maxRows, maxArgs/width)
	for len(r.values) > 0 {
		n := min(size, len(r.values))
		args := make([]any, 0, n*width)
		for _, values := range r.values[:n] {
			args = append(args, values...)
		}
		if _, err := q.Exec(r.text(n, width), args...); err != nil {
			return err
		}
		r.values = r.values[n:]
	}
	return nil
}

func (r *rows) text(n, width int) string {
	var b strings.Builder
	b.WriteString(r.into)
	arg := 1
	for row := range n {
		if row > 0 {
			b.WriteByte(',')
		}
		b.WriteString(" (")
		for column := range width {
			if column > 0 {
				b.WriteString(", ")
			}
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(arg))
			arg++
		}
		b.WriteByte(')')
	}
	b.WriteString(r.after)
	return b.String()
}

// padded returns rows in chunks for statements that may have the same row twice: the last is repeated until
// the size is a power of two. There are few such sizes, so few texts for connections to keep prepared.
func padded[T any](all []T) iter.Seq[[]T] {
	const most = 64
	return func(yield func([]T) bool) {
		for some := range slices.Chunk(all, most) {
			full := slices.Clone(some)
			for size := 1 << bits.Len(uint(len(some)-1)); len(full) < size; {
				full = append(full, some[len(some)-1])
			}
			if !yield(full) {
				return
			}
		}
	}
}
