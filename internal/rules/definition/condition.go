package definition

import "fmt"

// A Condition is a conditional expression, such as build.branch == "main", that was read and found
// sound: it names only variables that exist, and compares only what can be compared. It can be
// evaluated any number of times, from several goroutines.
type Condition struct {
	root *expression
}

// The bounds of a condition.
const (
	maxCondition      = 8192 // bytes of text
	maxConditionDepth = 100  // parentheses and negations inside each other
)

// ParseCondition reads the condition of a step, or of the builds that a webhook makes. The error is a
// [*ConditionError].
func ParseCondition(text string) (*Condition, error) {
	return parseCondition(text, false)
}

// ParseNotificationCondition reads the condition of a notification, which knows variables that the
// others do not: whether a pipeline started to fail or to pass, and what became of a step.
func ParseNotificationCondition(text string) (*Condition, error) {
	return parseCondition(text, true)
}

func parseCondition(text string, notification bool) (*Condition, error) {
	root, err := newConditionParser(text, notification).parse()
	if err != nil {
		return nil, err
	}
	return &Condition{root}, nil
}

// Eval reports whether the condition holds. It cannot fail: what could go wrong was found by parsing.
//
// Null is a value like others: it equals null and nothing else. It matches no regular expression, so
// that !~ holds for it; it includes nothing and is included nowhere; where true or false is needed it
// is false.
func (c *Condition) Eval(context *Context) bool {
	return c.root.truth(context)
}

// A ConditionError is a sentence about a place in the text of a condition. Lines and columns count
// from one; columns count characters, not bytes.
type ConditionError struct {
	Line    int
	Column  int
	Message string
}

// Error leaves the line out where it is the first, since most conditions have but one.
func (e *ConditionError) Error() string {
	if e.Line == 1 {
		return fmt.Sprintf("column %d: %s", e.Column, e.Message)
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// conditionError makes an error about the byte of a text at an offset.
func conditionError(text string, offset int, format string, args ...any) *ConditionError {
	line, column := place(text, offset)
	return &ConditionError{line, column, fmt.Sprintf(format, args...)}
}
