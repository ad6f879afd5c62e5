package flow

import (
	"slices"

	"stackyard/internal/definition"
)

// covers reports whether a soft_fail covers an exit status.
func covers(soft definition.SoftFail, status int) bool {
	return status != 0 && (soft.Always || matches(soft.ExitStatus, status))
}

// matches reports whether an exit status is one of those that a condition names.
func matches(e definition.ExitStatus, status int) bool {
	return e.Any && status != 0 || slices.Contains(e.Codes, status)
}
