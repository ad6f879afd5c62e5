package core

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	colorPattern     = regexp.MustCompile(`^#(?:[0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$`)
	emojiNamePattern = regexp.MustCompile(`^:[a-zA-Z0-9_+-]{1,100}:$`)
)

// maxEmoji is the maximum number of characters that form one visible emoji, with some margin.
const maxEmoji = 16

// ValidColor reports whether s is a color in hex, for example #A9CCE3 or #abc.
func ValidColor(s string) bool { return colorPattern.MatchString(s) }

// ValidEmoji reports whether s is the name of an emoji between colons, for example :rocket:, or a short text of
// symbols and not letters: new emojis appear every year.
func ValidEmoji(s string) bool {
	if emojiNamePattern.MatchString(s) {
		return true
	}
	drawn := func(r rune) bool { return r > unicode.MaxLatin1 && !unicode.IsLetter(r) && !unicode.IsSpace(r) }
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsSpace(r) || unicode.IsControl(r) }
	return utf8.RuneCountInString(s) <= maxEmoji && strings.ContainsFunc(s, drawn) && !strings.ContainsFunc(s, word)
}
