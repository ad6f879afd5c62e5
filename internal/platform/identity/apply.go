package identity

import (
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// An Applying is one organization's part of an organization file on its way into the database: where
// it goes, when, and what becomes of it. Each room applies what the file says about it.
type Applying struct {
	Q          *db.Q
	Org        *Organization
	Now        time.Time
	Changes    *core.Changes
	Complaints *core.Complaints
}
