package condition

import (
	"strings"
	"unicode/utf8"

	"stackyard/internal/rules/message"
)

// A token is a word of a condition.
type token struct {
	kind tokenKind
	// text is a name, the digits of a number, what quotes enclose without escapes, or what the
	// slashes of a regular expression enclose.
	text string
	// start and end are its place in the condition, in bytes.
	start, end int
	// ignoreCase is the flag of a regular expression.
	ignoreCase bool
}

// A tokenKind is an operator or a parenthesis as it is written, or one of the kinds below.
type tokenKind string

const (
	tokenEnd     tokenKind = ""
	tokenName    tokenKind = "name"
	tokenNumber  tokenKind = "number"
	tokenText    tokenKind = "text"
	tokenPattern tokenKind = "pattern"

	tokenIncludes tokenKind = "includes"
)

// symbols are the tokens that are no words, longer ones before those that they begin with.
var symbols = []tokenKind{"==", "!=", "=~", "!~", "&&", "||", "!", "(", ")", "[", "]", ","}

// mistakenSymbols are what people write who have another language in mind.
var mistakenSymbols = map[byte]string{
	'=': `"=" is no operator; compare with "=="`,
	'&': `"&" is no operator; "and" is "&&"`,
	'|': `"|" is no operator; "or" is "||"`,
	'$': "a variable cannot stand here; write build.env(\"NAME\")",
}

// A lexer cuts a condition into tokens.
type lexer struct {
	text string
	at   int
}

func (l *lexer) fail(offset int, format string, args ...any) error {
	return newError(l.text, offset, format, args...)
}

// next returns the next token, tokenEnd after the last.
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
		return l.word(tokenNumber, isDigit), nil
	case isNameStart(c):
		name := l.word(tokenName, func(c byte) bool { return isNameStart(c) || isDigit(c) || c == '.' })
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

// take ends a token.
func (l *lexer) take(t token, end int) token {
	t.end = end
	l.at = end
	return t
}

// skipBlanks passes over blanks and comments, which go from // to the end of the line.
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

// word reads the bytes that belong to a word.
func (l *lexer) word(kind tokenKind, belongs func(byte) bool) token {
	end := l.at
	for end < len(l.text) && belongs(l.text[end]) {
		end++
	}
	return l.take(token{kind: kind, text: l.text[l.at:end], start: l.at}, end)
}

// quoted reads a text in quotes. In single quotes a backslash stands for itself unless it comes
// before a quote or another backslash; in double quotes it makes n, r and t control characters and
// any other character itself.
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

// unescape returns what a backslash and the byte after it stand for.
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

// pattern reads a regular expression between slashes. A slash inside of it is written \/, which
// means the same in regular expressions.
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

// flags reads the letters behind a regular expression.
func (l *lexer) flags(t token) (token, error) {
	flags := l.word(tokenName, isNameStart)
	if flags.text != "" && flags.text != "i" {
		return token{}, l.fail(flags.start, `%s is no flag of regular expressions, only i is; write others into the expression, such as /(?s)a.b/`, message.Quote(flags.text))
	}
	t.ignoreCase = flags.text == "i"
	t.end = flags.end
	return t, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isNameStart(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }
