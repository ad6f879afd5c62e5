package pipelines

import (
	"fmt"
	"strings"
)

// A statement collects the conditions of a query together with its arguments.
type statement struct {
	conditions []string
	args       []any
}

// arg adds an argument and returns its placeholder.
func (s *statement) arg(v any) string {
	s.args = append(s.args, v)
	return fmt.Sprintf("$%d", len(s.args))
}

// where adds a condition in which %s stands for the placeholder of each value.
func (s *statement) where(condition string, values ...any) {
	placeholders := make([]any, len(values))
	for i, v := range values {
		placeholders[i] = s.arg(v)
	}
	s.conditions = append(s.conditions, fmt.Sprintf(condition, placeholders...))
}

// clause returns the WHERE clause.
func (s *statement) clause() string {
	return "WHERE " + strings.Join(s.conditions, "\n\t\t  AND ")
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// containing returns the pattern of LIKE … ESCAPE '\' for texts that hold a text.
func containing(text string) string {
	return "%" + likeEscaper.Replace(text) + "%"
}
