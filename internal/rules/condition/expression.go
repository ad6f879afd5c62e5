package condition

import (
	"regexp"
	"slices"
)

// A valueType is the type of an expression. It is known before evaluation; the value has that type or is null.
type valueType int

const (
	typeNull valueType = iota
	typeText
	typeInteger
	typeBoolean
	typeList
	typePattern
)

// String describes a value of the type for messages.
func (t valueType) String() string {
	return [...]string{"nothing", "text", "a whole number", "true or false", "a list", "a regular expression"}[t]
}

// An operand is a value. The zero operand is null.
type operand struct {
	typ     valueType
	text    string
	number  int64
	boolean bool
	list    []string
}

func (o operand) equal(other operand) bool {
	return o.typ == other.typ && o.text == other.text && o.number == other.number && o.boolean == other.boolean &&
		slices.Equal(o.list, other.list)
}

// An expression is a condition or a part of one: an operator with its operands, a literal, a value of the
// context, or a regular expression.
type expression struct {
	operator    tokenKind
	left, right *expression // "!" has no left

	literal operand
	read    func(*Context) operand
	pattern *regexp.Regexp

	typ        valueType
	start, end int // position in the condition, in bytes
}

func literal(t token, value operand) *expression {
	return &expression{literal: value, typ: value.typ, start: t.start, end: t.end}
}

// fits reports whether the expression can be used where type t is required. Null always can.
func (e *expression) fits(t valueType) bool { return e.typ == t || e.typ == typeNull }

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
		if e.right.typ != typePattern {
			return p.needs(e.operator, "a regular expression such as /^v1/ on its right", e.right)
		}
	case tokenIncludes:
		if !e.left.fits(typeList) {
			return p.needs(e.operator, "a list on its left", e.left)
		}
		if !e.right.fits(typeText) && e.right.typ != typePattern {
			return p.needs(e.operator, "text or a regular expression on its right", e.right)
		}
	case "==", "!=":
		for _, side := range []*expression{e.left, e.right} {
			if side.typ == typePattern {
				return p.fail(side.start, `a regular expression stands on the right of "=~" or "!~", not beside %q`, e.operator)
			}
		}
		if !e.left.fits(e.right.typ) && !e.right.fits(e.left.typ) {
			return p.fail(e.right.start, "%q compares values of one type; %s is %s and %s is %s",
				e.operator, p.excerpt(e.left), e.left.typ, p.excerpt(e.right), e.right.typ)
		}
	}
	return nil
}

func (p *parser) needs(operator tokenKind, what string, found *expression) error {
	return p.fail(found.start, "%q needs %s; %s is %s", operator, what, p.excerpt(found), found.typ)
}

// eval returns the value of an expression other than a regular expression.
func (e *expression) eval(c *Context) operand {
	switch {
	case e.operator != "":
		return operand{typ: typeBoolean, boolean: e.evalBool(c)}
	case e.read != nil:
		return e.read(c)
	}
	return e.literal
}

// evalBool evaluates a boolean expression; null is false. It evaluates the right side of && and || only if the
// left side does not decide.
func (e *expression) evalBool(c *Context) bool {
	switch e.operator {
	case "!":
		return !e.right.evalBool(c)
	case "&&":
		return e.left.evalBool(c) && e.right.evalBool(c)
	case "||":
		return e.left.evalBool(c) || e.right.evalBool(c)
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
	return e.eval(c).boolean
}

func (e *expression) matches(c *Context) bool {
	left := e.left.eval(c)
	return left.typ == typeText && e.right.pattern.MatchString(left.text)
}

func (e *expression) includes(c *Context) bool {
	list := e.left.eval(c).list
	if e.right.pattern != nil {
		return slices.ContainsFunc(list, e.right.pattern.MatchString)
	}
	right := e.right.eval(c)
	return right.typ == typeText && slices.Contains(list, right.text)
}
