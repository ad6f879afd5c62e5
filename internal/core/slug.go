package core

import "strings"

// MaxSlug is the length of the longest slug.
const MaxSlug = 100

// Slugify derives a slug from a name: lower case; runs of anything but letters and digits become one
// hyphen; none at the ends; at most MaxSlug long. It is empty when the name has no letter or digit
// of ASCII.
func Slugify(name string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(name) {
		if !isAlphanumeric(r) {
			gap = true
			continue
		}
		need := 1
		if gap && b.Len() > 0 {
			need = 2
		}
		if b.Len()+need > MaxSlug {
			break
		}
		if need == 2 {
			b.WriteByte('-')
		}
		gap = false
		b.WriteRune(r)
	}
	return b.String()
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
