package definition

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// interpolate replaces the variables of a text, as the agent does:
//
//	$NAME, ${NAME}      the value; nothing when it is not set
//	${NAME-text}        the text when it is not set
//	${NAME:-text}       the text when it is not set or empty
//	${NAME?text}        an error with the text when it is not set
//	${NAME:?text}       an error with the text when it is not set or empty
//	${NAME:2:3}         three characters from the third on; negative numbers count from the end
//	$$, \$              a dollar sign
//
// A name begins with a letter; any other dollar sign is literal. Each byte that is written or sliced counts
// against the budget; when it is used up, the error is errTooLong. Other errors are a [*variableError].
//
// The published library needs time that doubles with each nested escape, and panics with a large length, so it
// only serves as a reference in tests.
func interpolate(text string, env func(name string) (string, bool), budget *int) (string, error) {
	i := interpolation{text: text, env: env, budget: budget}
	if err := i.sequence(false, true); err != nil {
		return "", err
	}
	return string(i.out), nil
}

// scanVariables reports whether a text contains variables, and returns a [*variableError] for the first invalid
// one.
func scanVariables(text string) (found bool, err error) {
	if !strings.Contains(text, "$") {
		return false, nil
	}
	i := interpolation{text: text}
	err = i.sequence(false, false)
	return i.found, err
}

// A variableError is a message about a variable in a text.
type variableError struct {
	offset  int // in bytes
	message string
}

func (e *variableError) Error() string { return e.message }

var errTooLong = errors.New("the text is too long with its variables filled in")

// An interpolation processes a text in one pass. Parts without effect, for example an unused default, are
// parsed with live set to false: they read no variables and write nothing.
type interpolation struct {
	text   string
	at     int
	env    func(name string) (string, bool)
	out    []byte
	budget *int
	depth  int
	found  bool
}

func (i *interpolation) fail(offset int, format string, args ...any) error {
	return &variableError{offset, fmt.Sprintf(format, args...)}
}

func (i *interpolation) write(live bool, text string) error {
	if !live {
		return nil
	}
	i.out = append(i.out, text...)
	return i.spend(len(text))
}

func (i *interpolation) spend(bytes int) error {
	if *i.budget -= bytes; *i.budget < 0 {
		return errTooLong
	}
	return nil
}

// sequence processes text and variables; with braces, up to the closing brace.
func (i *interpolation) sequence(braces, live bool) error {
	special := `$\`
	if braces {
		special = `$\}`
	}
	for i.at < len(i.text) {
		rest := i.text[i.at:]
		var err error
		switch {
		case braces && rest[0] == '}':
			return nil
		case strings.HasPrefix(rest, `\\`):
			i.at += 2
			err = i.write(live, `\\`)
		case strings.HasPrefix(rest, `\$`), strings.HasPrefix(rest, `$$`):
			i.at += 2
			err = i.write(live, "$")
		case rest[0] == '$':
			err = i.variable(live)
		default:
			end := strings.IndexAny(rest[1:], special) + 1
			if end == 0 {
				end = len(rest)
			}
			i.at += end
			err = i.write(live, rest[:end])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// variable processes a dollar sign and the variable that it may start.
func (i *interpolation) variable(live bool) error {
	dollar := i.at
	i.at++
	if strings.HasPrefix(i.text[i.at:], "{") {
		i.at++
		return i.braces(dollar, live)
	}
	name := i.name()
	if name == "" {
		return i.write(live, "$")
	}
	return i.value(name, live)
}

// name reads and returns a variable name, or "" if there is none.
func (i *interpolation) name() string {
	rest := i.text[i.at:]
	if first, _ := utf8.DecodeRuneInString(rest); !unicode.IsLetter(first) {
		return ""
	}
	end := strings.IndexFunc(rest, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsNumber(c) && c != '_' })
	if end < 0 {
		end = len(rest)
	}
	i.at += end
	i.found = true
	return rest[:end]
}

func (i *interpolation) value(name string, live bool) error {
	if !live {
		return nil
	}
	value, _ := i.env(name)
	return i.write(live, value)
}

// braces processes ${…} after the opening brace.
func (i *interpolation) braces(dollar int, live bool) error {
	if i.depth++; i.depth > maxDepth {
		return i.fail(dollar, "variables are nested more than %d deep", maxDepth)
	}
	defer func() { i.depth-- }()
	name := i.name()
	if name == "" {
		return i.fail(dollar, `"${" must be followed by the name of a variable, which begins with a letter; write "$${" for the characters themselves`)
	}
	if err := i.operation(dollar, name, live); err != nil {
		return err
	}
	if !strings.HasPrefix(i.text[i.at:], "}") {
		return i.fail(dollar, `the brace of "${%s" is never closed`, name)
	}
	i.at++
	return nil
}

// operation processes the part of ${…} after the name.
func (i *interpolation) operation(dollar int, name string, live bool) error {
	rest := i.text[i.at:]
	value, set := "", false
	if live {
		value, set = i.env(name)
	}
	switch {
	case rest == "" || rest[0] == '}':
		return i.write(live, value)
	case strings.HasPrefix(rest, ":-"):
		i.at += 2
		return i.fallback(value, value != "", live)
	case rest[0] == '-':
		i.at++
		return i.fallback(value, set, live)
	case strings.HasPrefix(rest, ":?"):
		i.at += 2
		return i.required(dollar, name, value, value != "", live)
	case rest[0] == '?':
		i.at++
		return i.required(dollar, name, value, set, live)
	case rest[0] == ':':
		i.at++
		return i.substring(dollar, name, value, live)
	}
	return i.fail(dollar, `"${%s" must be followed by "}" or by one of the operators - :- ? :? and :; write "$${" for the characters themselves`, name)
}

// fallback writes the value if there is one, and otherwise the following default.
func (i *interpolation) fallback(value string, has, live bool) error {
	if has {
		if err := i.write(live, value); err != nil {
			return err
		}
	}
	return i.sequence(true, live && !has)
}

// required writes the value if there is one, and otherwise fails with the following message.
func (i *interpolation) required(dollar int, name, value string, has, live bool) error {
	missing := live && !has
	start := len(i.out)
	if err := i.sequence(true, missing); err != nil {
		return err
	}
	if !missing {
		return i.write(live, value)
	}
	message := string(i.out[start:])
	if message == "" {
		return i.fail(dollar, "the variable %s is not set", name)
	}
	return i.fail(dollar, "the variable %s is not set: %s", name, message)
}

// substring writes a part of the value, given by an offset and an optional length.
func (i *interpolation) substring(dollar int, name, value string, live bool) error {
	rest := i.text[i.at:]
	end := strings.IndexByte(rest, '}')
	if end < 0 {
		return nil // the caller reports the missing brace
	}
	i.at += end
	offset, length, hasLength := strings.Cut(rest[:end], ":")
	from, err := strconv.Atoi(strings.TrimSpace(offset))
	to := 0
	if err == nil && hasLength {
		to, err = strconv.Atoi(strings.TrimSpace(length))
	}
	if err != nil {
		return i.fail(dollar, `"${%s:" must be followed by a whole number, or two with a colon between them; write "${%s:-…}" for a default`, name, name)
	}
	if !live {
		return nil
	}
	if err := i.spend(len(value)); err != nil {
		return err
	}
	return i.write(live, slice(value, from, to, hasLength))
}

// slice returns a range of characters, clipped to the text.
func slice(text string, from, length int, hasLength bool) string {
	runes := []rune(text)
	if from < 0 {
		from += len(runes)
	}
	from = min(max(from, 0), len(runes))
	runes = runes[from:]
	switch {
	case !hasLength:
		return string(runes)
	case length < 0:
		return string(runes[:max(len(runes)+length, 0)])
	}
	return string(runes[:min(length, len(runes))])
}
