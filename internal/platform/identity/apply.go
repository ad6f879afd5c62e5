package identity

import (
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// An Applying is the transaction that applies one organization's part of an organization file, and collects
// changes and complaints. Each package applies its own part.
type Applying struct {
	Q          *db.Q
	Org        *Organization
	Now        time.Time
	Changes    *core.Changes
	Complaints *core.Complaints
}
