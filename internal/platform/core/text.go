package core

import "unicode/utf8"

// Cut returns the first characters of a text.
func Cut(text string, most int) string {
	for i := range text {
		if most--; most < 0 {
			return text[:i]
		}
	}
	return text
}

// CutBytes returns the text up to a number of bytes, in whole characters.
func CutBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
