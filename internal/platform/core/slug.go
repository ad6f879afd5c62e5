package core

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// MaxSlug is the maximum length of a slug.
const MaxSlug = 100

// Slugify derives a slug from a name: lower case; Latin letters without their accents; runs of anything
// but letters and digits become one hyphen; none at the ends; at most MaxSlug long. It is empty when the
// name has no Latin letter and no digit.
func Slugify(name string) string {
	slug, _ := slugify(name)
	return slug
}

// slugify is Slugify, and reports whether the name has more letters or digits than the slug can hold.
func slugify(name string) (slug string, truncated bool) {
	var b strings.Builder
	gap := false
	for _, r := range norm.NFKD.String(name) {
		r = unicode.ToLower(r)
		letters, ok := latin[r]
		switch {
		case isAlphanumeric(r):
			letters = string(r)
		case ok:
		case unicode.Is(unicode.Mn, r): // the accent of the letter before
			continue
		default:
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			letters = "-" + letters
		}
		if b.Len()+len(letters) > MaxSlug {
			return b.String(), true
		}
		b.WriteString(letters)
		gap = false
	}
	return b.String(), false
}

// latin are the Latin letters that are not an ASCII letter with an accent.
var latin = map[rune]string{
	'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'ð': "d", 'đ': "d", 'þ': "th", 'ł': "l", 'ħ': "h", 'ı': "i", 'ĸ': "k",
	'ŋ': "n", 'ŧ': "t", 'ƒ': "f", 'ə': "e", 'ɛ': "e", 'ɔ': "o", 'ɓ': "b", 'ɗ': "d", 'ɖ': "d", 'ɲ': "n", 'ƙ': "k", 'ƴ': "y",
}

// FreeSlug derives a slug from a name for something of a kind, for example pipeline, with an id. A name without
// letters or digits gets a generated slug. A slug that was truncated and is taken gets a number; any other
// taken slug is left for the caller to refuse, because the names are too similar.
func FreeSlug(kind, name, id string, taken func(slug string) bool) string {
	slug, truncated := slugify(name)
	if slug == "" {
		return kind + "-" + id[len(id)-12:] // the random part
	}
	free := slug
	for n := 2; truncated && taken(free); n++ {
		suffix := fmt.Sprintf("-%d", n)
		free = strings.TrimRight(slug[:min(len(slug), MaxSlug-len(suffix))], "-") + suffix
	}
	return free
}

// ValidSlug reports whether s starts with an alphanumeric, has only lower-case alphanumerics and
// hyphens, and is at most MaxSlug long.
func ValidSlug(s string) bool {
	if s == "" || len(s) > MaxSlug || s[0] == '-' {
		return false
	}
	for _, r := range s {
		if !isAlphanumeric(r) && r != '-' {
			return false
		}
	}
	return true
}

func isAlphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
}
