package lifecycle

import (
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/rules/definition"
)

// duration returns the column value of d: NULL for nil.
func duration(d *time.Duration) any {
	if d == nil {
		return nil
	}
	return d.Microseconds()
}

// softFail returns the column value of a rule: NULL for none.
func softFail(s definition.SoftFail) any {
	if !s.Always && !s.ExitStatus.Any && len(s.ExitStatus.Codes) == 0 {
		return nil
	}
	return db.JSON(s)
}

// number returns the column value of n: NULL for nil.
func number(n *int) any {
	if n == nil {
		return nil
	}
	return *n
}
