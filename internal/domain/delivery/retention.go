package delivery

import (
	"stackyard/internal/domain/quotas"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// removalTask is the task that removes old deliveries.
const removalTask = "delivery-removal"

// removeOld removes some finished deliveries that are older than their organization keeps them. Of those that are younger,
// trim keeps a number for each receiver.
func (s *Service) removeOld(q *db.Q) (more bool, err error) {
	orgs, err := identity.Organizations(q)
	if err != nil {
		return false, err
	}
	for _, org := range orgs {
		days := quotas.Of(&org).DeliveryRetentionDays
		if days == 0 {
			continue
		}
		n, err := q.DeleteSome(giveUpBatch, "deliveries", "organization_id = $1 AND state <> 'pending' AND finished_at < $2",
			org.ID, db.Micros(s.Clock().AddDate(0, 0, -days)))
		if err != nil || n == giveUpBatch {
			return err == nil, err
		}
	}
	return false, nil
}
