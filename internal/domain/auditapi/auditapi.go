// Package auditapi shows the audit trail of organizations over REST, exports it, and removes old records. Package audit
// has the records; each package that changes something writes them.
package auditapi

import (
	"time"

	"stackyard/internal/domain/quotas"
	"stackyard/internal/platform/audit"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

// Service serves the audit trail.
type Service struct {
	db     *db.DB
	public core.PublicURL
	clock  core.Clock
}

// New returns the service.
func New(d *db.DB, public core.PublicURL, clock core.Clock) *Service {
	return &Service{db: d, public: public, clock: clock}
}

const (
	removalTask = "audit-removal"
	removeEvery = time.Hour
	// removeBatch bounds the records that are removed in one transaction.
	removeBatch = 1000
)

// Background registers the removal of old records.
func (s *Service) Background(r *tasks.Runner) { r.Sweep(removalTask, removeEvery, s.removeOld) }

// removeOld removes some records that are past the retention of their organization.
func (s *Service) removeOld(q *db.Q) (more bool, err error) {
	orgs, err := identity.Organizations(q)
	if err != nil {
		return false, err
	}
	for _, org := range orgs {
		days := quotas.Of(&org).AuditRetentionDays
		if days == 0 {
			continue
		}
		removed, err := audit.Remove(q, org.ID, s.clock().AddDate(0, 0, -days), removeBatch)
		if err != nil || removed == removeBatch {
			return err == nil, err
		}
	}
	return false, nil
}
