// Package condition parses and evaluates conditional expressions of pipelines, for example build.branch ==
// "main".
//
// [Parse] checks everything that can go wrong: syntax, names of variables, types of operands, and the size of
// the text and its regular expressions. [Condition.Eval] reads values from a [Context] and cannot fail. All
// functions are pure.
package condition

import (
	"errors"
	"fmt"

	"stackyard/internal/rules/message"
)

// A Condition is a valid conditional expression. It can be evaluated by several goroutines at the same time.
type Condition struct {
	root *expression
}

// Limits of a condition.
const (
	maxLength = 8192 // bytes of text
	maxDepth  = 100  // nested parentheses and negations
)

// Parse parses the condition of a step, or of the builds that a webhook creates. The error is an [*Error].
func Parse(text string) (*Condition, error) {
	return parse(text, false)
}

// ParseNotification parses the condition of a notification. It has more variables: whether a pipeline started
// to fail or to pass, and the outcome of a step.
func ParseNotification(text string) (*Condition, error) {
	return parse(text, true)
}

// Check returns the error of a condition, or nil, and the cost of compiling its regular expressions. The cost
// counts even if there is an error.
func Check(text string, notification bool) (cost int, wrong *Error) {
	p := newParser(text, notification)
	_, err := p.parse()
	wrong, _ = errors.AsType[*Error](err)
	return p.patternCost, wrong
}

func parse(text string, notification bool) (*Condition, error) {
	root, err := newParser(text, notification).parse()
	if err != nil {
		return nil, err
	}
	return &Condition{root}, nil
}

// Eval reports whether the condition holds.
//
// Null equals null and nothing else. It matches no regular expression, so !~ is true for it; it includes nothing
// and is included nowhere; as a boolean it is false.
func (c *Condition) Eval(context *Context) bool {
	return c.root.evalBool(context)
}

// An Error is a message about a position in the text of a condition. Lines and columns count from 1; columns
// count characters, not bytes.
type Error struct {
	Line    int
	Column  int
	Message string
}

// Error omits the line if it is the first, since most conditions have only one.
func (e *Error) Error() string {
	if e.Line == 1 {
		return fmt.Sprintf("column %d: %s", e.Column, e.Message)
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// newError returns an error about a byte offset of a text.
func newError(text string, offset int, format string, args ...any) *Error {
	line, column := message.Position(text, offset)
	return &Error{line, column, fmt.Sprintf(format, args...)}
}
