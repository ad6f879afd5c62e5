package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// MinLength is the minimum length of a value. Shorter values would match everywhere.
const MinLength = 6

// Forms returns the texts to search for, without line breaks. There are none if the value is too short.
func Forms(value string) []string {
	value = strings.Trim(value, "\r\n")
	if len(joined(value)) < MinLength {
		return nil
	}
	forms := []string{joined(value), escaped(value)}
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); len(line) >= MinLength {
			forms = append(forms, line)
		}
	}
	if visible := joined(visibleText(value)); len(visible) >= MinLength {
		forms = append(forms, visible)
	}
	digits := hex.EncodeToString([]byte(value))
	forms = append(forms, digits, strings.ToUpper(digits))
	for before := range 3 {
		forms = append(forms, encoded(base64.RawStdEncoding, value, before)...)
		forms = append(forms, encoded(base64.RawURLEncoding, value, before)...)
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// joined returns a text without its line breaks.
func joined(text string) string {
	return strings.NewReplacer("\r", "", "\n", "").Replace(text)
}

// escaped returns a text as a JSON string without quotes.
func escaped(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(text) != nil {
		return joined(text)
	}
	return strings.Trim(b.String(), "\"\n")
}

// encoded returns the base64 encodings of a value that is preceded by so many bytes, modulo three: the part
// that is independent of neighboring bytes, and the whole for the end of the text.
func encoded(encoding *base64.Encoding, value string, before int) []string {
	text := encoding.EncodeToString(append(make([]byte, before), value...))
	text = text[(before*8+5)/6:]
	padding := (3 - (before+len(value))%3) % 3
	if padding == 0 {
		return []string{text}
	}
	return []string{text[:len(text)-1], text, text + strings.Repeat("=", padding)}
}
