package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Problem is a message about a position in the YAML. Lines and columns count from 1; columns count
// characters, not bytes.
type Problem struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
}

func (p Problem) String() string {
	return fmt.Sprintf("line %d, column %d: %s", p.Line, p.Column, p.Message)
}

// Errors are the problems that [Parse] found, in document order. It is never empty.
type Errors []Problem

// Error returns one line per problem.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// A problemSet keeps the first maxProblems distinct problems. A wrong node is read once for each of its aliases
// and reported once.
type problemSet struct {
	seen map[Problem]bool
}

func (b *problemSet) full() bool { return len(b.seen) >= maxProblems }

func (b *problemSet) add(p Problem) {
	if b.full() {
		return
	}
	if b.seen == nil {
		b.seen = map[Problem]bool{}
	}
	b.seen[p] = true
}

// sorted returns the problems by place, nil when there are none.
func (b *problemSet) sorted() []Problem {
	if len(b.seen) == 0 {
		return nil
	}
	list := make([]Problem, 0, len(b.seen))
	for p := range b.seen {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
	return list
}
