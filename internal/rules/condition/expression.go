package condition

import (
	"regexp"
	"slices"
)

// A valueType is the type of a value in a condition. Every expression has one that is known before it
// is evaluated; its value has that type or is null.
type valueType int

const (
	typeNull valueType = iota
	typeText
	typeInteger
	typeBoolean
	typeList
	typePattern
)

// String says what a value of the type is.
func (t valueType) String() string {
	return [...]string{"nothing", "text", "a whole number", "true or false", "a list", "a regular expression"}[t]
}

// An operand is a value. The zero operand is null.
type operand struct {
	is     valueType
	text   string
	number int64
	truth  bool
	list   []string
}

func (o operand) equal(other operand) bool {
	return o.is == other.is && o.text == other.text && o.number == other.number && o.truth == other.truth &&
		slices.Equal(o.list, other.list)
}

// An expression is a condition or a part of one: an operator with what it is applied to, a literal,
// something to read from the context, or a regular expression.
type expression struct {
	operator    tokenKind
	left, right *expression // "!" has no left

	literal operand
	read    func(*Context) operand
	pattern *regexp.Regexp

	is         valueType
	start, end int // its place in the condition, in bytes
}

func literal(t token, value operand) *expression {
	return &expression{literal: value, is: value.is, start: t.start, end: t.end}
}

// fits reports whether the expression can stand where one of a type is needed. Null always can.
func (e *expression) fits(t valueType) bool { return e.is == t || e.is == typeNull }

// checkTypes checks the operands of a binary operator.
func (p *parser) checkTypes(e *expression) error {
	switch e.operator {
	case "&&", "||":
		if !e.left.fits(typeBoolean) {
			return p.needs(e.operator, "true or false on its left", e.left)
		}
		if !e.right.fits(typeBoolean) {
			return p.needs(e.operator, "true or false on its right", e.right)
		}
	case "=~", "!~":
		if !e.left.fits(typeText) {
			return p.needs(e.operator, "text on its left", e.left)
		}
		if e.right.is != typePattern {
			return p.needs(e.operator, "a regular expression such as /^v1/ on its right", e.right)
		}
	case tokenIncludes:
		if !e.left.fits(typeList) {
			return p.needs(e.operator, "a list on its left", e.left)
		}
		if !e.right.fits(typeText) && e.right.is != typePattern {
			return p.needs(e.operator, "text or a regular expression on its right", e.right)
		}
	case "==", "!=":
		for _, side := range []*expression{e.left, e.right} {
			if side.is == typePattern {
				return p.fail(side.start, `a regular expression stands on the right of "=~" or "!~", not beside %q`, e.operator)
			}
		}
		if !e.left.fits(e.right.is) && !e.right.fits(e.left.is) {
			return p.fail(e.right.start, "%q compares values of one type; %s is %s and %s is %s",
				e.operator, p.excerpt(e.left), e.left.is, p.excerpt(e.right), e.right.is)
		}
	}
	return nil
}

func (p *parser) needs(operator tokenKind, what string, found *expression) error {
	return p.fail(found.start, "%q needs %s; %s is %s", operator, what, p.excerpt(found), found.is)
}

// eval returns the value of an expression that is not a regular expression.
func (e *expression) eval(c *Context) operand {
	switch {
	case e.operator != "":
		return operand{is: typeBoolean, truth: e.truth(c)}
	case e.read != nil:
		return e.read(c)
	}
	return e.literal
}

// truth reports whether an expression that is true, false or null is true. It looks at the right of
// && and || only where the left does not decide.
func (e *expression) truth(c *Context) bool {
	switch e.operator {
	case "!":
		return !e.right.truth(c)
	case "&&":
		return e.left.truth(c) && e.right.truth(c)
	case "||":
		return e.left.truth(c) || e.right.truth(c)
	case "==":
		return e.left.eval(c).equal(e.right.eval(c))
	case "!=":
		return !e.left.eval(c).equal(e.right.eval(c))
	case "=~":
		return e.matches(c)
	case "!~":
		return !e.matches(c)
	case tokenIncludes:
		return e.includes(c)
	}
	return e.eval(c).truth
}

func (e *expression) matches(c *Context) bool {
	left := e.left.eval(c)
	return left.is == typeText && e.right.pattern.MatchString(left.text)
}

func (e *expression) includes(c *Context) bool {
	list := e.left.eval(c).list
	if e.right.pattern != nil {
		return slices.ContainsFunc(list, e.right.pattern.MatchString)
	}
	right := e.right.eval(c)
	return right.is == typeText && slices.Contains(list, right.text)
}
