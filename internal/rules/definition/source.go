package definition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// load reads the one document of a YAML source. The problem is nil when that worked.
func load(source []byte) (*yaml.Node, *Problem) {
	if len(source) > maxSource {
		return nil, &Problem{1, 1, fmt.Sprintf("the definition is larger than %d bytes", maxSource)}
	}
	if p := checkCharacters(source); p != nil {
		return nil, p
	}
	decoder := yaml.NewDecoder(bytes.NewReader(source))
	document, err := decode(decoder)
	if errors.Is(err, io.EOF) {
		return nil, &Problem{1, 1, "the definition is empty; it needs a list of steps"}
	}
	if err != nil {
		return nil, SyntaxProblem(source, err)
	}
	switch second, err := decode(decoder); {
	case errors.Is(err, io.EOF):
		return document.Content[0], nil
	case err != nil:
		return nil, SyntaxProblem(source, err)
	default:
		return nil, &Problem{second.Line, second.Column, "a second document begins here; a definition is one document"}
	}
}

// decode reads the next document. The library panics on some malformed comments; these are reported as syntax
// errors.
func decode(d *yaml.Decoder) (document *yaml.Node, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("yaml: %v", v)
		}
	}()
	document = new(yaml.Node)
	if err := d.Decode(document); err != nil {
		return nil, err
	}
	return document, nil
}

// checkCharacters finds the first character that YAML or storage cannot represent.
func checkCharacters(source []byte) *Problem {
	line, column := 1, 1
	for i := 0; i < len(source); {
		c, size := utf8.DecodeRune(source[i:])
		switch {
		case c == '\n':
			line, column = line+1, 0
		case c == utf8.RuneError && size == 1:
			return &Problem{line, column, "this is not valid UTF-8"}
		case !printable(c):
			return &Problem{line, column, fmt.Sprintf("the character %U cannot stand in YAML; inside double quotes it can be written as an escape", c)}
		}
		i += size
		column++
	}
	return nil
}

// printable reports whether YAML allows a character unescaped.
func printable(c rune) bool {
	switch {
	case c < ' ':
		return c == '\t' || c == '\r'
	case c >= 0x7f && c <= 0x9f:
		return c == 0x85
	}
	return c != 0xfffe && c != 0xffff
}

// libraryLine matches the place that the library puts before its messages.
var libraryLine = regexp.MustCompile(`^line (\d+): `)

// unknownAnchor matches the library's message about an alias without an anchor.
var unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)

// grammarErrors describe tokens in the wrong place. For these the library reports where the enclosing list or
// mapping starts, which may be far above.
var grammarErrors = map[string]string{
	"did not find expected key":              "a key was expected on this line; check its indentation against the lines above",
	"did not find expected '-' indicator":    `a list item beginning with "-" was expected on this line; check its indentation against the lines above`,
	"did not find expected node content":     "a value is missing on this line",
	"did not find expected ',' or ']'":       `a list in brackets is still open on this line; "," or "]" was expected`,
	"did not find expected ',' or '}'":       `a mapping in braces is still open on this line; "," or "}" was expected`,
	"did not find expected <document start>": "the document ends above this line; check the indentation",
	"found undefined tag handle":             "a tag on this line is not defined",
	"found duplicate %YAML directive":        "the %YAML directive stands twice",
	"found incompatible YAML document":       "this version of YAML is not supported",
	"found duplicate %TAG directive":         "the %TAG directive stands twice",
	"did not find expected <stream-start>":   "this is not YAML",
}

// tokenErrors describe malformed tokens; the library reports the right line for them.
var tokenErrors = map[string]string{
	"mapping values are not allowed in this context":               `a value after ":" cannot stand where this line has it; quote the text if the colon belongs to it, or check the indentation`,
	"block sequence entries are not allowed in this context":       `a list item beginning with "-" cannot stand where this line has it; put it on a line of its own, or quote the text`,
	"mapping keys are not allowed in this context":                 `a key beginning with "?" cannot stand where this line has it; quote the text if the question mark belongs to it`,
	"found character that cannot start any token":                  "a value on this line begins with a character that cannot begin one; indent with spaces instead of tabs, and quote text that begins with @ or `",
	"could not find expected ':'":                                  `":" was expected after the key on this line`,
	"found unexpected end of stream":                               "the quotes that open on this line are never closed",
	"found unexpected document indicator":                          "the quotes that open on this line are never closed",
	"found a tab character that violates indentation":              "indent with spaces instead of tabs",
	"found a tab character where an indentation space is expected": "indent with spaces instead of tabs",
	"found unknown escape character":                               `there is no such escape in double quotes as this line has; write "\\" for a backslash, or use single quotes`,
	"did not find expected alphabetic or numeric character":        "a name was expected after & or *; quote the text if it begins with that character",
	"did not find expected comment or line break":                  "nothing but a comment may follow on this line",
	"did not find expected whitespace or line break":               "a space is missing on this line",
	"exceeded max depth of 10000":                                  "lists and mappings are nested too deep",
}

// SyntaxProblem converts a library error into a message with a position. The library knows no columns and not
// always the line.
func SyntaxProblem(source []byte, err error) *Problem {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := libraryLine.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = message[len(m[0]):]
	}
	if m := unknownAnchor.FindStringSubmatch(message); m != nil {
		line := failingLine(source)
		column := columnOf(source, line, "*"+m[1])
		return &Problem{line, column, fmt.Sprintf("the alias *%s has no anchor &%s above it", m[1], m[1])}
	}
	sentence, grammar := grammarErrors[message]
	if grammar {
		line = failingLine(source)
	} else if sentence = tokenErrors[message]; sentence == "" {
		sentence = message
	}
	return &Problem{line, columnOf(source, line, ""), "not valid YAML: " + sentence}
}

// failingLine returns the line that the library was reading when it gave up. It reads the source
// again, handing out one line at a time.
func failingLine(source []byte) int {
	lines := &lineReader{rest: source}
	decoder := yaml.NewDecoder(lines)
	for {
		if _, err := decode(decoder); err != nil {
			return max(lines.lines, 1)
		}
	}
}

// A lineReader hands out one line for each read and counts them.
type lineReader struct {
	rest  []byte
	lines int
}

func (l *lineReader) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		return 0, io.EOF
	}
	end := bytes.IndexByte(l.rest, '\n') + 1
	if end == 0 {
		end = len(l.rest)
	}
	n := copy(p, l.rest[:end])
	l.rest = l.rest[n:]
	if n == end {
		l.lines++
	}
	return n, nil
}

// columnOf returns the column of text in a line, or of the first word of the line.
func columnOf(source []byte, line int, text string) int {
	content := lineOf(source, line)
	i := bytes.Index(content, []byte(text))
	if i <= 0 {
		i = len(content) - len(bytes.TrimLeft(content, " \t"))
	}
	return utf8.RuneCount(content[:i]) + 1
}

// lineOf returns a line without its end, nothing when there is no such line.
func lineOf(source []byte, line int) []byte {
	for range line - 1 {
		_, source, _ = bytes.Cut(source, []byte("\n"))
	}
	source, _, _ = bytes.Cut(source, []byte("\n"))
	return bytes.TrimSuffix(source, []byte("\r"))
}

// positionInside maps a line and column within a scalar's text to the source. This works for text on one line, or
// line by line after "|". Otherwise it returns the position of the scalar.
func positionInside(source []byte, n *yaml.Node, line, column int) (int, int) {
	if n.Style == yaml.LiteralStyle {
		written := lineOf(source, n.Line+line)
		if indent, ok := bytes.CutSuffix(written, lineOf([]byte(n.Value), line)); ok {
			return n.Line + line, utf8.RuneCount(indent) + column
		}
		return n.Line, n.Column
	}
	opening := ""
	switch n.Style {
	case yaml.DoubleQuotedStyle:
		opening = `"`
	case yaml.SingleQuotedStyle:
		opening = "'"
	}
	written := []rune(string(lineOf(source, n.Line)))
	rest := string(written[min(n.Column-1, len(written)):])
	if !strings.HasPrefix(rest, opening+n.Value) {
		return n.Line, n.Column
	}
	return n.Line, n.Column + len(opening) + column - 1
}
