package condition

import (
	"strings"
	"unicode/utf8"

	"stackyard/internal/rules/message"
)

// A token is the smallest unit of a condition.
type token struct {
	kind tokenKind
	// text is a name, the digits of a number, the unescaped content of quotes, or the content between the
	// slashes of a regular expression.
	text string
	// start and end are the position in the condition, in bytes.
	start, end int
	// ignoreCase is the flag of a regular expression.
	ignoreCase bool
}

// A tokenKind is an operator or bracket as written, or one of the kinds below.
type tokenKind string

const (
	tokenEnd     tokenKind = ""
	tokenName    tokenKind = "name"
	tokenNumber  tokenKind = "number"
	tokenText    tokenKind = "text"
	tokenPattern tokenKind = "pattern"

	tokenIncludes tokenKind = "includes"
)

// symbols are operators and brackets. Longer ones come before their prefixes.
var symbols = []tokenKind{"==", "!=", "=~", "!~", "&&", "||", "!", "(", ")", "[", "]", ","}

// mistakenSymbols are symbols of other languages, with the error for each.
var mistakenSymbols = map[byte]string{
	'=': `"=" is no operator; compare with "=="`,
	'&': `"&" is no operator; "and" is "&&"`,
	'|': `"|" is no operator; "or" is "||"`,
	'$': "a variable cannot stand here; write build.env(\"NAME\")",
}

// A lexer splits a condition into tokens.
type lexer struct {
	text string
	at   int
}

func (l *lexer) fail(offset int, format string, args ...any) error {
	return newError(l.text, offset, format, args...)
}

// next returns the next token, and tokenEnd after the last.
func (l *lexer) next() (token, error) {
	l.skipBlanks()
	if l.at == len(l.text) {
		return token{start: l.at, end: l.at}, nil
	}
	c := l.text[l.at]
	switch {
	case c == '"' || c == '\'':
		return l.quoted(c)
	case c == '/':
		return l.pattern()
	case isDigit(c):
		return l.takeWhile(tokenNumber, isDigit), nil
	case isNameStart(c):
		name := l.takeWhile(tokenName, func(c byte) bool { return isNameStart(c) || isDigit(c) || c == '.' })
		if name.text == string(tokenIncludes) {
			name.kind = tokenIncludes
		}
		return name, nil
	}
	for _, s := range symbols {
		if strings.HasPrefix(l.text[l.at:], string(s)) {
			return l.take(token{kind: s, start: l.at}, l.at+len(s)), nil
		}
	}
	if hint := mistakenSymbols[c]; hint != "" {
		return token{}, l.fail(l.at, "%s", hint)
	}
	r, _ := utf8.DecodeRuneInString(l.text[l.at:])
	return token{}, l.fail(l.at, "the character %q cannot stand here", r)
}

// take sets the end of a token and moves behind it.
func (l *lexer) take(t token, end int) token {
	t.end = end
	l.at = end
	return t
}

// skipBlanks skips whitespace and comments, which start with // and end with the line.
func (l *lexer) skipBlanks() {
	for l.at < len(l.text) {
		rest := l.text[l.at:]
		switch {
		case strings.HasPrefix(rest, "//"):
			if line := strings.IndexByte(rest, '\n'); line >= 0 {
				l.at += line
			} else {
				l.at = len(l.text)
			}
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			l.at++
		default:
			return
		}
	}
}

// takeWhile reads the longest token whose bytes satisfy belongs.
func (l *lexer) takeWhile(kind tokenKind, belongs func(byte) bool) token {
	end := l.at
	for end < len(l.text) && belongs(l.text[end]) {
		end++
	}
	return l.take(token{kind: kind, text: l.text[l.at:end], start: l.at}, end)
}

// quoted reads a quoted text. In single quotes a backslash escapes only a quote or a backslash. In double
// quotes \n, \r and \t are control characters, and a backslash before any other character is dropped.
func (l *lexer) quoted(quote byte) (token, error) {
	var text strings.Builder
	for i := l.at + 1; i < len(l.text); i++ {
		c := l.text[i]
		switch {
		case c == quote:
			return l.take(token{kind: tokenText, text: text.String(), start: l.at}, i+1), nil
		case c == '\\' && i+1 < len(l.text):
			i++
			text.WriteString(unescape(quote, l.text[i]))
		default:
			text.WriteByte(c)
		}
	}
	return token{}, l.fail(l.at, "the quotes that open here are never closed")
}

// unescape returns the meaning of a backslash followed by c.
func unescape(quote, c byte) string {
	if quote == '\'' && c != '\'' && c != '\\' {
		return `\` + string([]byte{c})
	}
	if quote == '"' {
		switch c {
		case 'n':
			return "\n"
		case 'r':
			return "\r"
		case 't':
			return "\t"
		}
	}
	return string([]byte{c})
}

// pattern reads a regular expression between slashes. \/ is a slash inside it, which regular expressions accept
// as well.
func (l *lexer) pattern() (token, error) {
	for i := l.at + 1; i < len(l.text) && l.text[i] != '\n'; i++ {
		switch l.text[i] {
		case '\\':
			i++
		case '/':
			t := l.take(token{kind: tokenPattern, text: l.text[l.at+1 : i], start: l.at}, i+1)
			return l.flags(t)
		}
	}
	return token{}, l.fail(l.at, "the regular expression that begins here is never closed by a slash")
}

// flags reads the letters after a regular expression.
func (l *lexer) flags(t token) (token, error) {
	flags := l.takeWhile(tokenName, isNameStart)
	if flags.text != "" && flags.text != "i" {
		return token{}, l.fail(flags.start, `%s is no flag of regular expressions, only i is; write others into the expression, such as /(?s)a.b/`, message.Quote(flags.text))
	}
	t.ignoreCase = flags.text == "i"
	t.end = flags.end
	return t, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isNameStart(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }
