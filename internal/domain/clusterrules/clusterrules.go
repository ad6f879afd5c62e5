// Package clusterrules keeps the rules that let a pipeline of one cluster reach a pipeline of another: trigger its
// builds, or read its artifacts.
//
// Within a cluster pipelines need no rule. The package stores rules and answers whether one exists ([Allows]);
// the packages that start builds and serve artifacts enforce them.
package clusterrules

import (
	"context"
	"slices"
	"strings"
	"time"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A Rule lets a pipeline of one cluster reach a pipeline of another.
type Rule struct {
	ID             string
	OrganizationID string
	Type           Type
	SourceID       string // the pipeline that gets access
	TargetID       string // the pipeline it gets access to
	CreatedBy      *identity.User
	CreatedAt      time.Time
}

// Service manages the rules of organizations.
type Service struct {
	db     *db.DB
	public core.PublicURL
	clock  core.Clock
}

// New returns the service of the rules in a database.
func New(d *db.DB, public core.PublicURL, clock core.Clock) *Service {
	return &Service{db: d, public: public, clock: clock}
}

// Type is what a rule allows.
type Type string

// The types of rules.
const (
	TriggerBuild  Type = "pipeline.trigger_build.pipeline"
	ReadArtifacts Type = "pipeline.artifacts_read.pipeline"
)

// Values lists every type.
func (Type) Values() []string { return []string{string(TriggerBuild), string(ReadArtifacts)} }

// action returns the action that the type allows, the middle part of its name.
func (t Type) action() string { return strings.Split(string(t), ".")[1] }

const noRule = "No rule found"

const selectRule = `
	SELECT r.id, r.organization_id, r.type, r.source_id, r.target_id, r.created_at, ` + identity.UserColumns + `
	FROM rules r` + joinPipelines + `
	LEFT JOIN users u ON u.id = r.created_by`

// joinPipelines excludes rules about deleted pipelines.
const joinPipelines = `
	JOIN pipelines sp ON sp.id = r.source_id AND sp.deleted_at IS NULL
	JOIN pipelines tp ON tp.id = r.target_id AND tp.deleted_at IS NULL`

func scanRule(scan db.Scan) (Rule, error) {
	var r Rule
	var by identity.User
	err := scan(append([]any{&r.ID, &r.OrganizationID, &r.Type, &r.SourceID, &r.TargetID, db.ToTime(&r.CreatedAt)}, identity.UserDest(&by)...)...)
	r.CreatedBy = by.OrNil()
	return r, err
}

// byID returns a rule of an organization, or a NotFound error.
func byID(q *db.Q, orgID, id string) (Rule, error) {
	return db.Find(q, noRule, scanRule, selectRule+` WHERE r.organization_id = $1 AND r.id = $2`, orgID, id)
}

// list returns one page of an organization's rules, oldest first, and the total.
func list(q *db.Q, orgID string, limit, offset int) ([]Rule, int, error) {
	rules, err := db.All(q, scanRule, selectRule+`
		WHERE r.organization_id = $1
		ORDER BY r.created_at, r.id
		LIMIT $2 OFFSET $3`, orgID, limit, offset)
	if err != nil {
		return nil, 0, err
	}
	var total int
	err = q.QueryRow(`SELECT COUNT(*) FROM rules r`+joinPipelines+` WHERE r.organization_id = $1`, orgID).Scan(&total)
	return rules, total, err
}

// Allows reports whether a rule of a type lets one pipeline reach another.
func Allows(q *db.Q, orgID string, t Type, sourceID, targetID string) (bool, error) {
	var n int
	err := q.QueryRow(`
		SELECT COUNT(*) FROM rules
		WHERE organization_id = $1 AND type = $2 AND source_id = $3 AND target_id = $4`, orgID, t, sourceID, targetID).Scan(&n)
	return n > 0, err
}

// create adds a rule between two pipelines, each given by id or slug.
func (s *Service) create(ctx context.Context, v pipelines.Viewer, t Type, source, target string) (Rule, error) {
	var wrong core.Problems
	if !slices.Contains(t.Values(), string(t)) {
		wrong.Add("type", "must be one of %s", strings.Join(t.Values(), ", "))
	}
	rule := Rule{ID: core.NewID(), OrganizationID: v.Org.ID, Type: t, CreatedBy: &v.User, CreatedAt: s.clock()}
	err := s.db.Write(ctx, func(q *db.Q) (err error) {
		wrong := slices.Clone(wrong)
		if rule.SourceID, err = pipelineID(q, v, source, "value.source_pipeline", &wrong); err != nil {
			return err
		}
		if rule.TargetID, err = pipelineID(q, v, target, "value.target_pipeline", &wrong); err != nil {
			return err
		}
		if err := wrong.Err(); err != nil {
			return err
		}
		_, err = ruleRows.Exec(q, rule.ID, `
			INSERT INTO rules (id, organization_id, type, source_id, target_id, created_by, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			rule.ID, rule.OrganizationID, rule.Type, rule.SourceID, rule.TargetID, v.User.ID, db.Micros(rule.CreatedAt))
		return err
	})
	if db.IsUnique(err) {
		err = core.Errorf(core.Unprocessable, "This rule already exists")
	}
	return rule, err
}

// pipelineID returns the id of the pipeline that has the name as its id or slug. If there is none, it adds a
// problem with the field.
func pipelineID(q *db.Q, v pipelines.Viewer, name, field string, wrong *core.Problems) (string, error) {
	find := pipelines.BySlug
	if id, ok := core.ParseID(name); ok {
		name, find = id, pipelines.ByID
	}
	p, err := find(q, v, name)
	switch {
	case core.KindOf(err) == core.NotFound:
		wrong.Add(field, "must be the UUID or the slug of a pipeline of this organization")
		return "", nil
	case err != nil:
		return "", err
	}
	return p.ID, nil
}
