package condition

import (
	"regexp"
	"strconv"
	"strings"

	"stackyard/internal/rules/message"
)

// A parser converts the tokens of a condition into an expression by operator precedence. It checks the types of
// operands on the way.
type parser struct {
	lexer
	token        token // the next token
	depth        int
	notification bool
	patternCost  int // of the regular expressions so far
}

func newParser(text string, notification bool) *parser {
	return &parser{lexer: lexer{text: text}, notification: notification}
}

// precedence is the binding strength of operators. "!" binds most strongly.
var precedence = map[tokenKind]int{
	"||": 1, "&&": 2,
	"==": 3, "!=": 3, "=~": 3, "!~": 3, tokenIncludes: 3,
	"!": 4,
}

func (p *parser) parse() (*expression, error) {
	if len(p.text) > maxLength {
		return nil, p.fail(0, "a condition must be at most %d bytes, found %d", maxLength, len(p.text))
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.token.kind == tokenEnd {
		return nil, p.fail(0, `the condition is empty; write one such as build.branch == "main"`)
	}
	root, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if p.token.kind != tokenEnd {
		return nil, p.fail(p.token.start, "an operator such as == or && was expected, found %s", p.describe(p.token))
	}
	if !root.fits(typeBoolean) {
		return nil, p.fail(root.start, "a condition must be true or false; %s is %s", p.excerpt(root), root.typ)
	}
	return root, nil
}

func (p *parser) advance() (err error) {
	p.token, err = p.next()
	return err
}

// expect consumes a token of the given kind, or returns an error.
func (p *parser) expect(kind tokenKind, format string, args ...any) error {
	if p.token.kind != kind {
		return p.fail(p.token.start, format, args...)
	}
	return p.advance()
}

// expression parses an operand and the following operators with a precedence above power.
func (p *parser) expression(power int) (*expression, error) {
	left, err := p.operand()
	for err == nil && precedence[p.token.kind] > power && p.token.kind != "!" {
		left, err = p.binary(left)
	}
	return left, err
}

// binary parses an operator and its right operand.
func (p *parser) binary(left *expression) (*expression, error) {
	operator := p.token.kind
	if err := p.advance(); err != nil {
		return nil, err
	}
	right, err := p.expression(precedence[operator])
	if err != nil {
		return nil, err
	}
	e := &expression{operator: operator, typ: typeBoolean, left: left, right: right, start: left.start, end: right.end}
	return e, p.checkTypes(e)
}

// operand parses a literal, variable, call or list, or a negated or parenthesized expression.
func (p *parser) operand() (*expression, error) {
	t := p.token
	switch t.kind {
	case tokenName:
		return p.name()
	case "!", "(", "[":
		if p.depth++; p.depth > maxDepth {
			return nil, p.fail(t.start, "a condition cannot be nested more than %d deep", maxDepth)
		}
		defer func() { p.depth-- }()
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	switch t.kind {
	case tokenText:
		return literal(t, operand{typ: typeText, text: t.text}), nil
	case tokenNumber:
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			return nil, p.fail(t.start, "the number is too large")
		}
		return literal(t, operand{typ: typeInteger, number: n}), nil
	case tokenPattern:
		return p.regularExpression(t)
	case "!":
		return p.negation(t)
	case "(":
		return p.parenthesized(t)
	case "[":
		return p.list(t)
	case tokenEnd:
		return nil, p.fail(t.start, "the condition ends where a value was expected")
	}
	return nil, p.fail(t.start, "a value was expected, found %s", p.describe(t))
}

// name parses true, false, null, a variable, or a call of build.env.
func (p *parser) name() (*expression, error) {
	t := p.token
	if err := p.advance(); err != nil {
		return nil, err
	}
	switch t.text {
	case "true", "false":
		return literal(t, operand{typ: typeBoolean, boolean: t.text == "true"}), nil
	case "null":
		return literal(t, operand{typ: typeNull}), nil
	case environmentFunction:
		return p.environment(t)
	}
	if p.token.kind == "(" {
		return nil, p.fail(t.start, "there is no function %s, only %s", t.text, environmentFunction)
	}
	return p.variable(t)
}

// variable parses the name of a context value.
func (p *parser) variable(t token) (*expression, error) {
	v, known := variables[t.text]
	if !known {
		v, known = notificationVariables[t.text]
		if known && !p.notification {
			return nil, p.fail(t.start, "%s is known only to the conditions of notifications", t.text)
		}
	}
	if !known {
		return nil, p.fail(t.start, "there is no variable %s%s", message.Quote(t.text), suggestFix(t.text))
	}
	return &expression{read: v.read, typ: v.typ, start: t.start, end: t.end}, nil
}

// suggestFix returns a suggestion for an unknown name. A name without a dot is probably text without quotes.
func suggestFix(name string) string {
	if near := message.Suggestion(name, variableNames); near != "" {
		return near
	}
	if !strings.Contains(name, ".") {
		return "; put text into quotes"
	}
	return ""
}

// environmentFunction is the only function.
const environmentFunction = "build.env"

// environment parses the argument of build.env.
func (p *parser) environment(t token) (*expression, error) {
	const usage = `build.env needs the name of a variable in quotes: build.env("NAME")`
	if err := p.expect("(", usage); err != nil {
		return nil, err
	}
	name := p.token
	if err := p.expect(tokenText, usage); err != nil {
		return nil, err
	}
	end := p.token.end
	if err := p.expect(")", `")" was expected after the name of the variable, found %s`, p.describe(p.token)); err != nil {
		return nil, err
	}
	if name.text == "" {
		return nil, p.fail(name.start, usage)
	}
	read := func(c *Context) operand {
		if c.Env == nil {
			return operand{}
		}
		value, set := c.Env(name.text)
		if !set {
			return operand{}
		}
		return operand{typ: typeText, text: value}
	}
	return &expression{read: read, typ: typeText, start: t.start, end: end}, nil
}

func (p *parser) negation(t token) (*expression, error) {
	right, err := p.expression(precedence["!"])
	if err != nil {
		return nil, err
	}
	if !right.fits(typeBoolean) {
		return nil, p.fail(right.start, `"!" needs true or false behind it; %s is %s; put parentheses around a comparison to turn it around`, p.excerpt(right), right.typ)
	}
	return &expression{operator: "!", typ: typeBoolean, right: right, start: t.start, end: right.end}, nil
}

func (p *parser) parenthesized(t token) (*expression, error) {
	inner, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	end := p.token.end
	if p.token.kind == tokenEnd {
		return nil, p.fail(t.start, "the parenthesis that opens here is never closed")
	}
	if err := p.expect(")", `")" or an operator was expected, found %s`, p.describe(p.token)); err != nil {
		return nil, err
	}
	inner.start, inner.end = t.start, end
	return inner, nil
}

// list parses quoted texts between brackets.
func (p *parser) list(t token) (*expression, error) {
	texts := []string{}
	for p.token.kind != "]" {
		if len(texts) > 0 {
			if err := p.expect(",", `"," or "]" was expected in the list, found %s`, p.describe(p.token)); err != nil {
				return nil, err
			}
		}
		texts = append(texts, p.token.text)
		if err := p.expect(tokenText, "a list holds texts in quotes, found %s", p.describe(p.token)); err != nil {
			return nil, err
		}
	}
	t.end = p.token.end
	return literal(t, operand{typ: typeList, list: texts}), p.advance()
}

// regularExpression compiles a regular expression.
func (p *parser) regularExpression(t token) (*expression, error) {
	source := t.text
	if t.ignoreCase {
		source = "(?i)" + source
	}
	cost, err := patternCost(source)
	if p.patternCost += cost; p.patternCost > maxPatternCost {
		return nil, p.fail(t.start, "the regular expressions of the condition are too large; repetitions multiply what they repeat")
	}
	var pattern *regexp.Regexp
	if err == nil {
		pattern, err = regexp.Compile(source)
	}
	if err != nil {
		why := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		return nil, p.fail(t.start, "this is not a regular expression: %s", why)
	}
	return &expression{pattern: pattern, typ: typePattern, start: t.start, end: t.end}, nil
}

// describe returns a token for an error message.
func (p *parser) describe(t token) string {
	if t.kind == tokenEnd {
		return "the end"
	}
	return message.Quote(p.text[t.start:t.end])
}

// excerpt returns the text of an expression for an error message.
func (p *parser) excerpt(e *expression) string {
	const longest = 40
	if text := p.text[e.start:e.end]; len(text) <= longest && !strings.Contains(text, "\n") {
		return text
	}
	return "this"
}
