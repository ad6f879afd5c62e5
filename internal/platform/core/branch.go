package core

import (
	"strings"
	"unicode"
)

// A BranchFilter is a space-separated list of patterns. A star matches any run of characters, a leading "!"
// negates. A branch matches when a positive pattern matches it, if there are any, and no negative one does. A
// blank filter matches every branch.
type BranchFilter string

// Match reports whether a branch matches the filter.
func (f BranchFilter) Match(branch string) bool {
	wanted, matched := false, false
	for pattern := range strings.FieldsSeq(string(f)) {
		if negative, ok := strings.CutPrefix(pattern, "!"); ok {
			if MatchStars(negative, branch) {
				return false
			}
			continue
		}
		wanted = true
		matched = matched || MatchStars(pattern, branch)
	}
	return matched || !wanted
}

// MatchStars matches s against a pattern in which each star matches any run of characters. It uses the
// leftmost match of each part between stars, so it never backtracks.
func MatchStars(pattern, s string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, first)
	if !ok {
		return false
	}
	parts := strings.Split(rest, "*")
	last := parts[len(parts)-1]
	for _, part := range parts[:len(parts)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return strings.HasSuffix(s, last)
}

// MaxBranch is the maximum length of a branch name, in bytes.
const MaxBranch = 255

// ValidBranch reports whether git accepts a name for a branch.
func ValidBranch(name string) bool {
	if name == "" || len(name) > MaxBranch || name == "@" || name == "HEAD" || name[0] == '-' {
		return false
	}
	if strings.ContainsAny(name, ` ~^:?*[\`) || strings.ContainsFunc(name, unicode.IsControl) {
		return false
	}
	if strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, ".") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
