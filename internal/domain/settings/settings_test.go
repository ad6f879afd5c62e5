package settings

import (
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func TestOf_GivesDefaultsToAnOrganizationWithoutSettings(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		acme := newOrganization(t, d, "acme")
		if got := of(t, d, acme); got != (Settings{DefaultBranch: "main"}) {
			t.Fatalf("settings of an untouched organization: %+v", got)
		}
	})
}

func TestOf_ReadsBackAllThatWasSaved(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		acme, other := newOrganization(t, d, "acme"), newOrganization(t, d, "other")
		on := func(name string, minute int) Switch {
			return Switch{EnabledAt: noon.Add(time.Duration(minute) * time.Minute), EnabledBy: newPerson(t, d, name)}
		}
		want := Settings{
			DefaultBranch:      "trunk",
			DefaultClusterID:   newCluster(t, d, acme),
			DefaultTimeout:     10,
			MaximumTimeout:     20,
			ScheduledJobExpiry: 30,
			TerminalAccess:     on("Ada", 1),
			PublicPipelines:    on("Grace", 2),
			QueueMetrics:       on("Barbara", 3),
			BuildExport:        Destination{Strategy: "s3", Location: "builds/2026"},
		}
		write(t, d, func(q *db.Q) error { return save(q, acme, want) })
		if got := of(t, d, acme); got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if got := of(t, d, other); got != defaults {
			t.Errorf("another organization has %+v", got)
		}
	})
}

func TestOf_WorksAfterAUserAndAClusterAreDeleted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		acme := newOrganization(t, d, "acme")
		ada := newPerson(t, d, "Ada")
		cluster := newCluster(t, d, acme)
		write(t, d, func(q *db.Q) error {
			return save(q, acme, Settings{DefaultClusterID: cluster, PublicPipelines: Switch{EnabledAt: noon, EnabledBy: ada}})
		})
		write(t, d, func(q *db.Q) error {
			_, err := q.Exec(`DELETE FROM users`)
			return err
		})
		write(t, d, func(q *db.Q) error {
			_, err := q.Exec(`DELETE FROM clusters`)
			return err
		})
		want := Settings{DefaultBranch: "main", PublicPipelines: Switch{EnabledAt: noon}}
		if got := of(t, d, acme); got != want || !got.PublicPipelines.Enabled() {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

func of(t *testing.T, d *db.DB, orgID string) (s Settings) {
	t.Helper()
	err := d.Read(t.Context(), func(q *db.Q) (err error) {
		s, err = Of(q, orgID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, d *db.DB, fn func(q *db.Q) error) {
	t.Helper()
	if err := d.Write(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func newOrganization(t *testing.T, d *db.DB, slug string) (id string) {
	t.Helper()
	id = core.NewID()
	write(t, d, func(q *db.Q) error {
		_, err := q.Exec(`INSERT INTO organizations (id, slug, name, features, limits, created_at) VALUES ($1, $2, $2, '{}', '{}', $3)`, id, slug, db.Micros(noon))
		return err
	})
	return id
}

func newPerson(t *testing.T, d *db.DB, name string) Person {
	t.Helper()
	p := Person{ID: core.NewID(), Name: name}
	write(t, d, func(q *db.Q) error {
		_, err := q.Exec(`INSERT INTO users (id, email, name, created_at) VALUES ($1, $2, $3, $4)`, p.ID, name+"@acme.test", name, db.Micros(noon))
		return err
	})
	return p
}

func newCluster(t *testing.T, d *db.DB, orgID string) (id string) {
	t.Helper()
	id = core.NewID()
	write(t, d, func(q *db.Q) error {
		_, err := q.Exec(`
			INSERT INTO clusters (id, organization_id, name, description, is_default, hosted, hosted_git_mirror_enabled, hosted_container_cache_enabled, created_at)
			VALUES ($1, $2, $1, '', FALSE, FALSE, FALSE, FALSE, $3)`, id, orgID, db.Micros(noon))
		return err
	})
	return id
}
