package logline

import "bytes"

// Beginnings and parts of lines that report a failure, in lower case. A part is looked for only in lines that have one
// of the rare words.
var (
	errorStarts = lines("error", "fatal", "panic:", "fail:", "failed", "failure", "fail\t", "--- fail", "traceback (most recent call last", "npm err!", "npm error", "make: ***", "✗", "✖", "❌", "not ok ", "e   ", "exception in thread")
	rareWords   = lines("error", "fatal", "exception:", "not found", "fault", "of memory", "no such file", "denied", "***")
	errorParts  = lines(" error:", ": error", "error[", " error ts", " fatal:", ": fatal", "fatal error", "exception:", "assertionerror", "command not found", "segmentation fault", "out of memory", "no such file or directory", "permission denied", "make: ***", "*** [")
	// notErrors are parts of lines that only count or name errors.
	notErrors = lines("0 error", "no error", "error: 0", "errors: 0", "0 failed", "failed: 0", "0 fail", "without error", "error_", "errors ok")
)

func lines(texts ...string) (list [][]byte) {
	for _, t := range texts {
		list = append(list, []byte(t))
	}
	return list
}

// IsError reports whether a line of text, without escape sequences, probably reports why a job failed.
func IsError(line []byte) bool {
	var buffer [1000]byte
	text := buffer[:copy(buffer[:], bytes.TrimLeft(line, " \t>|#*"))]
	if len(text) == 0 {
		return false
	}
	for i, c := range text {
		if c >= 'A' && c <= 'Z' {
			text[i] = c + 'a' - 'A'
		}
	}
	return reports(text) && !counts(text)
}

// reports reports whether a line in lower case mentions a failure.
func reports(text []byte) bool {
	for _, start := range errorStarts {
		if bytes.HasPrefix(text, start) {
			return true
		}
	}
	return containsAny(text, rareWords) && containsAny(text, errorParts)
}

func containsAny(text []byte, parts [][]byte) bool {
	for _, part := range parts {
		if bytes.Contains(text, part) {
			return true
		}
	}
	return false
}

// counts reports whether a line says that there is no failure.
func counts(text []byte) bool {
	for _, part := range notErrors {
		i := bytes.Index(text, part)
		if i >= 0 && (i == 0 || part[0] != '0' || text[i-1] < '0' || text[i-1] > '9') {
			return true
		}
	}
	return false
}
