package pipelines

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"stackyard/internal/domain/connections"
	"stackyard/internal/domain/events"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/sourcehost"
	"stackyard/internal/rules/definition"
)

const noPipeline = "No pipeline found"

const pipelineColumns = `
		p.id, p.organization_id, p.slug, p.name, p.description, p.repository, p.sealed_repository_url, p.cluster_id, p.default_branch,
		p.visibility, p.tags, p.emoji, p.color,
		p.template_id, COALESCE(t.configuration, p.configuration), COALESCE(t.steps, p.steps), p.env,
		p.branch_configuration, p.skip_queued_branch_builds, p.skip_queued_branch_builds_filter,
		p.cancel_running_branch_builds, p.cancel_running_branch_builds_filter, p.allow_rebuilds,
		p.clone_mirror_url, p.default_command_step_timeout, p.maximum_command_step_timeout,
		p.provider_settings, p.source_webhooks_disabled_at, p.source_webhooks_disabled_by, e.provider,
		p.created_at, p.archived_at, p.webhook_key, p.badge_key, ` + identity.UserColumns

// pipelineJoins are the joins that pipelineColumns needs besides pipelines p.
const pipelineJoins = `
	LEFT JOIN users u ON u.id = p.created_by
	LEFT JOIN pipeline_templates t ON t.id = p.template_id
	LEFT JOIN source_connections e ON e.organization_id = p.organization_id AND e.host = p.repository_host`

// scanPipeline reads the rank of the viewer's level, then pipelineColumns.
func scanPipeline(scan db.Scan) (*Pipeline, error) {
	p := &Pipeline{Steps: []definition.VisualResponse{}, Env: map[string]string{}, ProviderSettings: ProviderSettings{}}
	var rank int
	var declared, steps string
	var by identity.User
	err := scan(append([]any{
		&rank,
		&p.ID, &p.OrganizationID, &p.Slug, &p.Name, &p.Description, &p.Repository, db.ToText(&p.sealedURL), db.ToText(&p.ClusterID), &p.DefaultBranch,
		&p.Visibility, db.ToJSON(&p.Tags), db.ToText(&p.Emoji), db.ToText(&p.Color),
		db.ToText(&p.TemplateID), db.ToText(&p.Configuration), db.ToText(&steps), db.ToJSON(&p.Env),
		db.ToText(&p.BranchConfiguration), &p.SkipQueued.On, db.ToText(&p.SkipQueued.Filter),
		&p.CancelRunning.On, db.ToText(&p.CancelRunning.Filter), &p.AllowRebuilds,
		db.ToText(&p.CloneMirrorURL), &p.DefaultTimeout, &p.MaximumTimeout,
		db.ToJSON(&p.ProviderSettings), db.ToTime(&p.SourceWebhooks.DisabledAt), db.ToText(&p.SourceWebhooks.DisabledBy), db.ToText(&declared),
		db.ToTime(&p.CreatedAt), db.ToTime(&p.ArchivedAt), &p.webhookKey, &p.badgeKey,
	}, identity.UserDest(&by)...)...)
	if err != nil {
		return nil, err
	}
	if steps != "" {
		if err := json.Unmarshal([]byte(steps), &p.Steps); err != nil {
			return nil, fmt.Errorf("read the steps of pipeline %s: %w", p.ID, err)
		}
	}
	p.size = len(p.Configuration) + len(steps)
	p.CreatedBy = by.OrNil()
	p.sealedFor = p.Repository
	p.Provider = cmp.Or(declared, sourcehost.ProviderOf(p.Repository))
	p.level = levels[rank]
	if p.Visibility == Public && !p.level.AtLeast(identity.ReadOnly) {
		return p.forVisitor(), nil
	}
	return p, nil
}

// BySlug returns the pipeline with a slug, or a NotFound error if it does not exist or the viewer cannot see
// it. Pipelines loaded for [System] have no counts.
func BySlug(q *db.Q, v Viewer, slug string) (*Pipeline, error) {
	return onePipeline(q, v, "p.slug = %s", slug)
}

// ByID returns the pipeline with an id, or a NotFound error if it does not exist or the viewer cannot see it.
// Pipelines loaded for [System] have no counts.
func ByID(q *db.Q, v Viewer, id string) (*Pipeline, error) {
	return onePipeline(q, v, "p.id = %s", id)
}

func onePipeline(q *db.Q, v Viewer, condition, value string) (*Pipeline, error) {
	var s db.Statement
	v.visible(&s)
	s.Where(condition, value)
	p, err := db.One(q, scanPipeline, `
		SELECT `+v.rank(&s)+`, `+pipelineColumns+`
		FROM pipelines p `+pipelineJoins+`
		`+s.Clause(), s.Args()...)
	if errors.Is(err, db.ErrNoRows) {
		return nil, core.Errorf(core.NotFound, noPipeline)
	}
	if err != nil || v.isSystem() || p.visited {
		return p, err
	}
	return p, loadCounts(q, p)
}

// ByIDs returns the pipelines among ids that a viewer can see, by id.
func ByIDs(q *db.Q, v Viewer, ids []string) (map[string]*Pipeline, error) {
	var s db.Statement
	v.visible(&s)
	s.WhereIn(q, "p.id", ids)
	found, err := db.All(q, scanPipeline, `
		SELECT `+v.rank(&s)+`, `+pipelineColumns+`
		FROM pipelines p `+pipelineJoins+`
		`+s.Clause(), s.Args()...)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*Pipeline, len(found))
	for _, p := range found {
		byID[p.ID] = p
	}
	return byID, loadCounts(q, found...)
}

// VisibleIDs returns the ids of the pipelines that a viewer can see; all is true, without ids, if the viewer
// can see every pipeline of the organization. With visited set, it includes pipelines that the viewer sees only
// as a visitor.
func VisibleIDs(q *db.Q, v Viewer, visited bool) (ids []string, all bool, err error) {
	if v.ManagesAll() {
		return nil, true, nil
	}
	var s db.Statement
	v.visible(&s)
	if !visited {
		v.accessible(&s)
	}
	ids, err = db.Strings(q, `
		SELECT p.id FROM pipelines p
		`+s.Clause(), s.Args()...)
	return ids, false, err
}

// lock returns a pipeline, or a NotFound error, and locks it until the end of the transaction. It does not find
// pipelines for visitors, who cannot change them.
func lock(q *db.Q, v Viewer, id string) (*Pipeline, error) {
	if err := q.Lock("pipelines", id); err != nil {
		return nil, err
	}
	p, err := ByID(q, v, id)
	if err == nil {
		err = p.Hidden()
	}
	return p, err
}

// ByBadgeKey returns the id and the default branch of the pipeline with a key in its badge_url, or a NotFound
// error.
func ByBadgeKey(q *db.Q, key string) (id, defaultBranch string, err error) {
	err = q.QueryRow(`SELECT id, default_branch FROM pipelines WHERE badge_key = $1 AND deleted_at IS NULL`, key).Scan(&id, &defaultBranch)
	if errors.Is(err, db.ErrNoRows) {
		err = core.Errorf(core.NotFound, noPipeline)
	}
	return id, defaultBranch, err
}

// LockForBuild locks a pipeline until the end of the transaction, so that it is not changed or deleted. Statements that
// wait run first, and check returns an error if the pipeline cannot be built. See [db.Q.Later].
func LockForBuild(q *db.Q, orgID, id string) (check func() error, err error) {
	if err := q.LockLater("pipelines", id); err != nil {
		return nil, err
	}
	var found bool
	var archivedAt time.Time
	err = db.EachLater(q, func(scan db.Scan) error {
		found = true
		return scan(db.ToTime(&archivedAt))
	}, `SELECT archived_at FROM pipelines WHERE organization_id = $1 AND id = $2 AND deleted_at IS NULL`, orgID, id)
	check = func() error {
		switch err := q.Flush(); {
		case err != nil:
			return err
		case !found:
			return core.Errorf(core.NotFound, noPipeline)
		case !archivedAt.IsZero():
			return core.Errorf(core.Unprocessable, "This pipeline is archived, so it cannot be built; unarchive it first")
		}
		return nil
	}
	return check, err
}

// CheckMutable returns an error if a pipeline is archived, see [Pipeline.Mutable].
func CheckMutable(q *db.Q, orgID, id string) error {
	var archived bool
	err := q.QueryRow(`SELECT archived_at IS NOT NULL FROM pipelines WHERE organization_id = $1 AND id = $2`, orgID, id).Scan(&archived)
	switch {
	case errors.Is(err, db.ErrNoRows):
		return core.Errorf(core.NotFound, noPipeline)
	case err == nil && archived:
		return errArchived
	}
	return err
}

// Topic is the bus topic of the pipelines of an organization.
func Topic(organizationID string) string { return "pipelines of organization:" + organizationID }

// A filter selects pipelines to list.
type filter struct {
	name, repository       string    // substrings, case-insensitive; empty: any
	createdFrom, createdTo time.Time // from is inclusive, to is exclusive; zero: any
	archived               bool      // include archived pipelines
}

// list returns one page of the pipelines that a viewer can see, and the total. They are sorted by name, or
// newest first if the filter restricts the creation time.
func list(q *db.Q, v Viewer, f filter, limit, offset int) ([]*Pipeline, int, error) {
	var s db.Statement
	v.visible(&s)
	if f.repository != "" { // visitors cannot see the repository, so they must not search for it
		v.accessible(&s)
	}
	f.restrict(q, &s)
	var total int
	if err := q.QueryRow(`SELECT COUNT(*) FROM pipelines p `+s.Clause(), s.Args()...).Scan(&total); err != nil {
		return nil, 0, err
	}
	order := "p.name_folded" // unique in an organization
	if !f.createdFrom.IsZero() || !f.createdTo.IsZero() {
		order = "p.created_at DESC, p.id DESC"
	}
	// The inner query selects the page, so that joins and ranks are computed for a page and not for the
	// organization.
	pipelines, err := db.All(q, db.Within(route.Budget(limit, ""), scanPipeline), `
		SELECT `+v.rank(&s)+`, `+pipelineColumns+`
		FROM (
			SELECT *
			FROM pipelines p
			`+s.Clause()+`
			ORDER BY `+order+`
			LIMIT `+s.Arg(limit)+` OFFSET `+s.Arg(offset)+`) p `+pipelineJoins+`
		ORDER BY `+order, s.Args()...)
	if err != nil {
		return nil, 0, err
	}
	return pipelines, total, loadCounts(q, pipelines...)
}

func (f filter) restrict(q *db.Q, s *db.Statement) {
	if !f.archived {
		s.Where("p.archived_at IS NULL")
	}
	if f.name != "" {
		s.Where(`p.name_folded LIKE %s ESCAPE '\'`, containing(strings.ToLower(f.name)))
	}
	if f.repository != "" {
		condition := fmt.Sprintf(`p.repository_folded LIKE %s ESCAPE '\'`, s.Arg(containing(strings.ToLower(sourcehost.WithoutCredentials(f.repository)))))
		if spellings := sourcehost.Spellings(f.repository); spellings != nil {
			condition = "(" + condition + " OR " + s.In(q, "p.repository_folded", spellings) + ")"
		}
		s.And(condition)
	}
	if !f.createdFrom.IsZero() {
		s.Where("p.created_at >= %s", db.Micros(f.createdFrom))
	}
	if !f.createdTo.IsZero() {
		s.Where("p.created_at < %s", db.Micros(f.createdTo))
	}
}

// containing returns the LIKE … ESCAPE '\' pattern of texts that contain a text.
func containing(text string) string { return "%" + db.Like(text) + "%" }

// namesLock names the lock that a transaction holds while it chooses names or slugs of an organization's
// pipelines, so that a name found free stays free.
func namesLock(organizationID string) string { return "pipeline names of " + organizationID }

// providerOf returns the provider of a pipeline's repository, as scanPipeline does.
func providerOf(q *db.Q, p *Pipeline) (string, error) {
	declared, err := connections.ProviderOf(q, p.OrganizationID, repositoryHost(p.Repository))
	return cmp.Or(declared, sourcehost.ProviderOf(p.Repository)), err
}

// save writes a pipeline that is new or locked by the caller.
func save(q *db.Q, p *Pipeline) error {
	q.Announce(Topic(p.OrganizationID))
	configuration, steps := db.Text(p.Configuration), db.JSON(p.Steps)
	if p.TemplateID != "" {
		configuration, steps = nil, nil
	}
	_, err := pipelineRows.Exec(q, p.ID, `
		INSERT INTO pipelines (
			id, organization_id, slug, name, name_folded, description,
			repository, sealed_repository_url, repository_folded, repository_host, cluster_id, default_branch,
			visibility, tags, emoji, color, template_id, configuration, steps, env,
			branch_configuration, skip_queued_branch_builds, skip_queued_branch_builds_filter,
			cancel_running_branch_builds, cancel_running_branch_builds_filter, allow_rebuilds,
			clone_mirror_url, default_command_step_timeout, maximum_command_step_timeout,
			provider_settings, source_webhooks_disabled_at, source_webhooks_disabled_by, archived_at,
			webhook_key, badge_key, created_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
			$23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37)`+db.OrUpdate("id", `
			slug, name, name_folded, description, repository, sealed_repository_url, repository_folded,
			repository_host, cluster_id, default_branch, visibility, tags, emoji, color, template_id,
			configuration, steps, env, branch_configuration, skip_queued_branch_builds,
			skip_queued_branch_builds_filter, cancel_running_branch_builds, cancel_running_branch_builds_filter,
			allow_rebuilds, clone_mirror_url, default_command_step_timeout, maximum_command_step_timeout,
			provider_settings, source_webhooks_disabled_at, source_webhooks_disabled_by, archived_at`),
		p.ID, p.OrganizationID, p.Slug, p.Name, strings.ToLower(p.Name), p.Description,
		p.Repository, db.Text(p.sealedURL), strings.ToLower(p.Repository), repositoryHost(p.Repository), db.Text(p.ClusterID), p.DefaultBranch,
		p.Visibility, db.JSON(p.Tags), db.Text(p.Emoji), db.Text(p.Color), db.Text(p.TemplateID), configuration, steps, db.JSON(p.Env),
		db.Text(p.BranchConfiguration), p.SkipQueued.On, db.Text(p.SkipQueued.Filter),
		p.CancelRunning.On, db.Text(p.CancelRunning.Filter), p.AllowRebuilds,
		db.Text(p.CloneMirrorURL), p.DefaultTimeout, p.MaximumTimeout,
		db.JSON(p.ProviderSettings), db.Micros(p.SourceWebhooks.DisabledAt), db.Text(p.SourceWebhooks.DisabledBy), db.Micros(p.ArchivedAt),
		p.webhookKey, p.badgeKey, p.CreatedBy.IDOrNull(), db.Micros(p.CreatedAt))
	if err != nil || p.ProviderSettings["publish_commit_status_per_step"] != true {
		return err
	}
	return events.AddWanted(q, connections.StatusConsumer, p.OrganizationID, connections.JobStatusEvents)
}

// repositoryHost returns the host of a repository URL, or "" if it cannot be parsed.
func repositoryHost(repository string) string {
	repo, err := sourcehost.ParseRepository(repository)
	if err != nil {
		return ""
	}
	return repo.Host
}

// markDeleted hides a pipeline and frees its name, slug and template. The row gets a random name and slug that
// cannot collide.
func markDeleted(q *db.Q, p *Pipeline, now time.Time) error {
	_, err := pipelineRows.Exec(q, p.ID, `
		UPDATE pipelines SET deleted_at = $3, name_folded = $4, slug = $4, template_id = NULL, cluster_id = NULL
		WHERE organization_id = $1 AND id = $2 AND deleted_at IS NULL`, p.OrganizationID, p.ID, db.Micros(now), "deleted "+core.NewID())
	return err
}

// DeletedFrom returns the organization of a deleted pipeline, or "" if the row no longer exists.
func DeletedFrom(q *db.Q, id string) (orgID string, err error) {
	err = q.QueryRow(`SELECT organization_id FROM pipelines WHERE id = $1 AND deleted_at IS NOT NULL`, id).Scan(&orgID)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return orgID, err
}

// RemoveDeleted removes the row of a deleted pipeline after its builds were removed, with the remaining rows
// that belong to it.
func RemoveDeleted(q *db.Q, id string) error {
	_, err := q.Exec(`DELETE FROM pipelines WHERE id = $1 AND deleted_at IS NOT NULL`, id)
	return err
}
