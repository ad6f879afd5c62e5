package suites

import (
	"context"
	"slices"

	"stackyard/internal/domain/organizations"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
	"stackyard/internal/platform/tasks"
)

// Service reads and changes suites.
type Service struct {
	db     *db.DB
	teams  *organizations.Service
	key    seal.Key
	public core.PublicURL
	clock  core.Clock
}

// New returns the service of the suites in a database. Tokens are sealed under the key.
func New(d *db.DB, teams *organizations.Service, key seal.Key, public core.PublicURL, clock core.Clock) *Service {
	return &Service{db: d, teams: teams, key: key, public: public, clock: clock}
}

// tokenContext binds a sealed token to its suite.
func tokenContext(suiteID string) string { return "suite_token:" + suiteID }

// token returns the API token of a suite.
func (s *Service) token(suite *Suite) (string, error) {
	token, err := s.key.Open(suite.sealedToken, tokenContext(suite.ID))
	return string(token), err
}

// create adds the suite that a request describes.
func (s *Service) create(ctx context.Context, v Viewer, body *suiteCreate) (*Suite, error) {
	var invalid core.Problems
	suite := &Suite{ID: core.NewID(), OrganizationID: v.Org.ID, CreatedAt: s.clock(), editable: true}
	body.check(&invalid)
	body.merge(suite)
	suite.check(&invalid)
	teams := body.teams(v, &invalid)
	token := seal.NewToken(TokenPrefix)
	var err error
	if suite.sealedToken, err = s.key.Seal([]byte(token), tokenContext(suite.ID)); err != nil {
		return nil, err
	}
	return suite, s.db.Write(ctx, func(q *db.Q) error {
		problems := slices.Clone(invalid)
		if err := q.LockName(namesLock(v.Org.ID)); err != nil {
			return err
		}
		if suite.Slug, err = newSlug(q, suite); err != nil {
			return err
		}
		if err := checkTeams(q, v.Org.ID, teams, &problems); err != nil {
			return err
		}
		if err := checkNames(q, suite, &problems); err != nil {
			return err
		}
		if err := problems.Err(); err != nil {
			return err
		}
		if err := insert(q, suite, token); err != nil {
			return err
		}
		return grant(q, suite, teams)
	})
}

// newSlug returns the slug of a new suite. The caller holds [namesLock].
func newSlug(q *db.Q, suite *Suite) (slug string, err error) {
	const unnumbered = core.MaxSlug - 20 // so many characters of a slug never make room for its number
	var used map[string]bool
	slug = core.FreeSlug("suite", suite.Name, suite.ID, func(slug string) bool {
		if used == nil {
			used, err = db.SlugsWithPrefix(q, "suites", suite.OrganizationID, slug[:unnumbered])
		}
		return used[slug]
	})
	return slug, err
}

// checkTeams adds a problem for each id that is not one of the organization's teams, and keeps the others from
// being deleted until the end of the write.
func checkTeams(q *db.Q, orgID string, ids []string, problems *core.Problems) error {
	existing, err := organizations.LockTeams(q, orgID, ids)
	for _, id := range ids {
		if !slices.Contains(existing, id) {
			problems.Add("team_ids", "must be teams of this organization; %s is not", id)
		}
	}
	return err
}

// checkNames adds a problem when another suite has the name or slug of this one. The caller holds [namesLock].
func checkNames(q *db.Q, suite *Suite, problems *core.Problems) error {
	if suite.Name == "" {
		return nil
	}
	name, slug, err := db.Taken(q, "suites", suite.OrganizationID, suite.ID, suite.Name, suite.Slug)
	switch {
	case name:
		problems.Add("name", "has already been taken")
	case slug:
		problems.Add("name", "is too similar to that of another suite: both have the slug %s", suite.Slug)
	}
	return err
}

// update changes a suite as a request says. Fields that the request does not name keep their values.
func (s *Service) update(ctx context.Context, v Viewer, id string, body *suiteFields) (updated *Suite, err error) {
	var invalid core.Problems
	body.check(&invalid)
	err = s.db.Write(ctx, func(q *db.Q) error {
		if err := q.LockName(namesLock(v.Org.ID)); err != nil {
			return err
		}
		if err := q.Lock("suites", id); err != nil {
			return err
		}
		if updated, err = byID(q, v, id); err != nil {
			return err
		}
		problems := slices.Clone(invalid)
		body.merge(updated)
		updated.check(&problems)
		if err := checkNames(q, updated, &problems); err != nil {
			return err
		}
		if err := problems.Err(); err != nil {
			return err
		}
		return update(q, updated)
	})
	return updated, err
}

// GrantAll gives a team full access to every suite of its organization.
func (s *Service) GrantAll(q *db.Q, team organizations.Team) error {
	_, err := q.Exec(`
		INSERT INTO team_suites (team_id, suite_id, can_edit, created_at)
		SELECT $1, id, TRUE, $2 FROM suites WHERE organization_id = $3 AND deleted_at IS NULL`,
		team.ID, db.Micros(team.CreatedAt), team.OrganizationID)
	return err
}

// Removal is the kind of the task that removes the results of a deleted suite, whose id is the key, and then its row.
const Removal = "suite-removal"

// delete hides a suite from everyone and enqueues the removal of its results. Its name and slug are free at once.
func (s *Service) delete(ctx context.Context, suite *Suite) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		if err := q.Lock("suites", suite.ID); err != nil {
			return err
		}
		now := s.clock()
		if err := markDeleted(q, suite, now); err != nil {
			return err
		}
		return tasks.Add(q, tasks.Task{Kind: Removal, Key: suite.ID, RunAt: now})
	})
}
