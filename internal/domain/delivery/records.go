package delivery

import (
	"context"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

// Newest returns the newest deliveries of a receiver, newest first.
func (s *Service) Newest(ctx context.Context, receiverID string, limit int) (list []*Delivery, err error) {
	err = s.DB.Read(ctx, func(q *db.Q) (err error) {
		list, err = listPage(q, receiverID, route.CursorPage{Size: limit})
		return err
	})
	return list[:min(len(list), limit)], err
}

// Delivery returns a delivery of a receiver, or a NotFound error.
func (s *Service) Delivery(ctx context.Context, receiverID, id string) (d *Delivery, err error) {
	err = s.DB.Read(ctx, func(q *db.Q) (err error) {
		d, err = byID(q, receiverID, id)
		return err
	})
	return d, err
}

// OfBuild returns the newest of what notify of a build and its steps asked for.
func (s *Service) OfBuild(ctx context.Context, buildID string, limit int) (list []*Delivery, err error) {
	err = s.DB.Read(ctx, func(q *db.Q) (err error) {
		list, err = notificationsOf(q, buildID, route.CursorPage{Size: limit})
		return err
	})
	return list[:min(len(list), limit)], err
}
