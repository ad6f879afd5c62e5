package settings

import (
	"strings"
	"unicode"
)

// maxBranch is the length of the longest branch name, in bytes.
const maxBranch = 255

// validBranch reports whether git would take a name for a branch.
func validBranch(name string) bool {
	if name == "" || len(name) > maxBranch || name == "@" || name == "HEAD" || name[0] == '-' {
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
