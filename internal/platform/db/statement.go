package db

import (
	"fmt"
	"strings"
)

// A Statement collects the conditions of a query with their arguments, for filters that are known only at run
// time.
type Statement struct {
	conditions []string
	args       []any
}

// Args returns the arguments so far.
func (s *Statement) Args() []any { return s.args }

// Arg adds an argument and returns its placeholder.
func (s *Statement) Arg(v any) string {
	s.args = append(s.args, v)
	return fmt.Sprintf("$%d", len(s.args))
}

// Where adds a condition in which each %s is replaced by the placeholder of a value.
func (s *Statement) Where(condition string, values ...any) {
	placeholders := make([]any, len(values))
	for i, v := range values {
		placeholders[i] = s.Arg(v)
	}
	s.And(fmt.Sprintf(condition, placeholders...))
}

// And adds a condition as it is; its arguments have been added with Arg.
func (s *Statement) And(condition string) { s.conditions = append(s.conditions, condition) }

// In adds the argument of the condition that a column is one of values, and returns the condition.
func (s *Statement) In(q *Q, column string, values []string) string {
	condition, arg := q.In(column, len(s.args)+1, values)
	s.args = append(s.args, arg)
	return condition
}

// WhereIn adds the condition that a column is one of values.
func (s *Statement) WhereIn(q *Q, column string, values []string) { s.And(s.In(q, column, values)) }

// Clause returns the WHERE clause; empty when there are no conditions.
func (s *Statement) Clause() string {
	if len(s.conditions) == 0 {
		return ""
	}
	return "WHERE " + strings.Join(s.conditions, "\n\t\t  AND ")
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// Like escapes text for a pattern of LIKE … ESCAPE '\', so that it matches only itself.
func Like(text string) string { return likeEscaper.Replace(text) }
