package pipelines

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/seal"
)

const benchmarkYAML = "steps:\n  - label: Build\n    command: make\n    agents: {queue: big}\n  - wait\n  - label: Test\n    command: make test\n    parallelism: 4\n"

// BenchmarkList renders the responses with 100 of an organization's 1,000 pipelines, and prints how much longer
// that takes than only reading the same rows.
func BenchmarkList(b *testing.B) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		for _, viewer := range []string{"admin", "member"} {
			b.Run(string(engine)+"/"+viewer, func(b *testing.B) { benchmarkList(b, dbtest.New(b, engine), viewer) })
		}
	}
}

func benchmarkList(b *testing.B, d *db.DB, who string) {
	v := fill(b, d, 1000)
	if who == "member" {
		v.Member = &identity.Membership{OrganizationID: v.Org.ID, Role: identity.Member}
	}
	s := New(d, seal.NewKey(), "https://ci.example.test", core.SystemClock, nil)
	r := &route.Request{Org: v.Org, Member: v.Member, Caller: &identity.Caller{User: v.User}}
	page := 0
	list := func() {
		page = (page + 1) % 10
		err := d.Read(b.Context(), func(q *db.Q) error {
			pipelines, total, err := list(q, v, filter{}, 100, page*100)
			if err != nil || len(pipelines) != 100 || total != 1000 {
				return fmt.Errorf("%d of %d pipelines: %w", len(pipelines), total, err)
			}
			for _, p := range pipelines {
				if _, err := json.Marshal(s.View(r, p)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	bare := func() {
		page = (page + 1) % 10
		if err := d.Read(b.Context(), func(q *db.Q) error { return readBare(q, v.Org.ID, page*100) }); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		list()
	}
	perList := float64(b.Elapsed()) / float64(b.N)
	begin := time.Now()
	const rounds = 50
	for range rounds {
		bare()
	}
	perBare := float64(time.Since(begin)) / rounds
	b.ReportMetric(perList/perBare, "time/bare-query")
}

// readBare reads whole rows without decoding them.
func readBare(q *db.Q, organizationID string, offset int) error {
	rows, err := q.Query(`
		SELECT p.*
		FROM pipelines p
		WHERE p.organization_id = $1
		ORDER BY p.name_folded, p.id
		LIMIT 100 OFFSET $2`, organizationID, offset)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	dest := make([]any, len(columns))
	for i := range dest {
		dest[i] = new(any)
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
	}
	return rows.Err()
}

// fill creates an organization with teams and pipelines, all of which one of the teams can build, and returns
// an administrator of it.
func fill(b *testing.B, d *db.DB, n int) Viewer {
	now := core.SystemClock()
	v := operator(&identity.Organization{ID: core.NewID(), Slug: "acme", Name: "Acme", CreatedAt: now, Features: identity.DefaultFeatures})
	v.Org.Features.Teams = true
	v.User = identity.User{ID: core.NewID(), Email: "ada@acme.test", Name: "Ada", CreatedAt: now}
	var problems core.Problems
	steps := parseYAML(benchmarkYAML, &problems)
	team := core.NewID()
	err := d.Write(b.Context(), func(q *db.Q) error {
		if err := identity.InsertOrganization(q, *v.Org); err != nil {
			return err
		}
		for _, statement := range []string{
			`INSERT INTO users (id, email, name, created_at) VALUES ('` + v.User.ID + `', 'ada@acme.test', 'Ada', 0)`,
			`INSERT INTO teams (id, organization_id, slug, name, description, privacy, is_default, default_member_role, members_can_create_pipelines,
				members_can_create_suites, members_can_create_registries, members_can_destroy_registries, members_can_destroy_packages, created_at)
			VALUES ('` + team + `', '` + v.Org.ID + `', 'everyone', 'Everyone', '', 'visible', TRUE, 'member', TRUE, TRUE, TRUE, TRUE, TRUE, 0)`,
			`INSERT INTO team_members (team_id, user_id, role, created_at) VALUES ('` + team + `', '` + v.User.ID + `', 'member', 0)`,
		} {
			if _, err := q.Exec(statement); err != nil {
				return err
			}
		}
		for i := range n {
			p := newPipeline(v.Org, &v.User, now)
			p.Name = fmt.Sprintf("Pipeline %04d", i)
			p.Slug = core.Slugify(p.Name)
			p.Repository = "git@github.com:acme/" + p.Slug + ".git"
			p.Configuration, p.Steps = benchmarkYAML, steps
			if err := save(q, p); err != nil {
				return err
			}
			if err := grant(q, p, teamLevels{team: identity.BuildAndRead}, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return v
}
