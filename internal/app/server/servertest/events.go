package servertest

import (
	"testing"

	"stackyard/internal/domain/events"
	"stackyard/internal/platform/db"
)

// OrganizationID returns the id of an organization.
func (s *Server) OrganizationID(t testing.TB, slug string) (id string) {
	t.Helper()
	err := s.DB.Read(t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT id FROM organizations WHERE slug = $1`, slug).Scan(&id)
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// RecordEvents has these events of acme written from now on; all if none is named.
func (s *Server) RecordEvents(t testing.TB, names ...events.Name) {
	t.Helper()
	if len(names) == 0 {
		names = events.All
	}
	orgID := s.OrganizationID(t, "acme")
	err := s.DB.Write(t.Context(), func(q *db.Q) error { return events.SetWanted(q, "test", orgID, events.NamesOf(names...)) })
	if err != nil {
		t.Fatal(err)
	}
}

// Events returns all events in order, each once.
func (s *Server) Events(t testing.TB) (list []events.Event) {
	t.Helper()
	var seqs []int64
	err := s.DB.Read(t.Context(), func(q *db.Q) (err error) {
		seqs, err = db.All(q, func(scan db.Scan) (n int64, err error) { return n, scan(&n) }, `SELECT seq FROM events WHERE seq > $1 ORDER BY seq`, s.eventsSeen)
		if err != nil {
			return err
		}
		list = list[:0]
		for _, seq := range seqs {
			e, err := events.Get(q, seq)
			if err != nil {
				return err
			}
			list = append(list, e)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) > 0 {
		s.eventsSeen = list[len(list)-1].Seq
	}
	return list
}
