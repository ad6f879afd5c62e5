package pipelines

import (
	"cmp"
	"slices"
	"strings"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// An edit is one change of a pipeline in a transaction. It collects all problems, so that they are reported
// together.
//
// An edit takes locks in a fixed order: names, cluster, template, teams, pipeline. Code that deletes a cluster,
// team or template uses the same order.
type edit struct {
	q        *db.Q
	v        Viewer
	key      seal.Key
	settings settings.Settings
	problems core.Problems
	// unpublished is whether the pipeline was public and no longer is.
	unpublished bool
}

// beginEdit begins an edit. problems are those found in the request so far.
func beginEdit(q *db.Q, v Viewer, key seal.Key, problems core.Problems) (*edit, error) {
	set, err := settings.Of(q, v.Org.ID)
	if err != nil {
		return nil, err
	}
	e := &edit{q: q, v: v, key: key, settings: set, problems: slices.Clone(problems)}
	return e, q.LockName(namesLock(v.Org.ID))
}

// newCluster returns the cluster of a new pipeline: the requested one, else the one in the organization's
// pipeline settings, else the organization's default cluster.
func (e *edit) newCluster(requested string) (id string, err error) {
	if requested = cmp.Or(strings.TrimSpace(requested), e.settings.DefaultClusterID); requested != "" {
		return e.cluster(requested)
	}
	c, err := clusters.Default(e.q, e.v.Org.ID)
	if core.KindOf(err) == core.NotFound {
		e.problems.Add("cluster_id", "is required, because the organization has no default cluster")
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return e.cluster(c.ID)
}

// newTimeout returns the default timeout of a new pipeline that does not set it: the organization's, or the
// pipeline's maximum if that is less.
func (e *edit) newTimeout(maximum *int) *int {
	minutes := e.settings.DefaultTimeout
	if minutes == 0 {
		return nil
	}
	if maximum != nil {
		minutes = min(minutes, *maximum)
	}
	return &minutes
}

// cluster returns the id of the requested cluster.
func (e *edit) cluster(requested string) (id string, err error) {
	id, ok := core.ParseID(requested)
	if !ok {
		e.problems.Add("cluster_id", "must be the UUID of a cluster")
		return "", nil
	}
	_, err = clusters.Lock(e.q, e.v.Org.ID, id)
	if core.KindOf(err) == core.NotFound {
		e.problems.Add("cluster_id", "must be a cluster of this organization")
		return "", nil
	}
	return id, err
}

// template returns the requested template; nil for none.
func (e *edit) template(requested string) (*Template, error) {
	if requested == "" {
		return nil, nil
	}
	id, ok := core.ParseID(requested)
	if !ok {
		e.problems.Add("pipeline_template_uuid", "must be the UUID of a pipeline template")
		return nil, nil
	}
	t, err := lockTemplate(e.q, e.v.Org.ID, id)
	if core.KindOf(err) == core.NotFound {
		e.problems.Add("pipeline_template_uuid", "must be a pipeline template of this organization")
		return nil, nil
	}
	return &t, err
}

// usable returns the template if the pipeline can use it, else nil. A pipeline keeps its template when that
// becomes unavailable.
func (e *edit) usable(t *Template, p *Pipeline) *Template {
	if t == nil || t.Available || t.ID == p.TemplateID || e.v.Member.Can(identity.ManageTemplates, e.v.Org) {
		return t
	}
	e.problems.Add("pipeline_template_uuid", "must be a template that is available to members")
	return nil
}

// apply writes the request, including the steps, into a pipeline.
func (e *edit) apply(p *Pipeline, f *pipelineFields, plan stepsPlan, template *Template) (err error) {
	was := p.Visibility
	setTrimmed(f.Repository, &p.Repository)
	if p.Provider, err = providerOf(e.q, p); err != nil {
		return err
	}
	f.applyTo(p, &e.problems)
	plan.applyTo(p, e.usable(template, p), &e.problems)
	p.DefaultBranch = cmp.Or(p.DefaultBranch, e.settings.DefaultBranch)
	e.unpublished = was == Public && p.Visibility != Public
	if p.Visibility == Public && was != Public && !e.mayPublish() {
		e.problems.Add("visibility", "cannot be public; an administrator can let members create public pipelines")
	}
	if strings.TrimSpace(f.CloneMirrorURL.Value) != "" && !e.v.Org.Features.CloneMirrors {
		e.problems.Add("clone_mirror_url", "cannot be set: clone mirrors are switched off in this organization")
	}
	return nil
}

// newSlug returns a slug for a new pipeline whose request has none. The caller holds [namesLock].
func (e *edit) newSlug(p *Pipeline) (slug string, err error) {
	const unnumbered = core.MaxSlug - 20 // characters of a slug that leave space for a number
	var used map[string]bool
	slug = core.FreeSlug("pipeline", p.Name, p.ID, func(slug string) bool {
		if used == nil {
			used, err = db.SlugsWithPrefix(e.q, "pipelines", p.OrganizationID, slug[:unnumbered])
		}
		return used[slug]
	})
	return slug, err
}

func (e *edit) mayPublish() bool {
	return e.settings.PublicPipelines.Enabled() || e.v.Member.Can(identity.CreatePublicPipelines, e.v.Org)
}

// commit validates the pipeline and saves it, or returns all problems.
func (e *edit) commit(p *Pipeline) error {
	p.check(&e.problems)
	if err := checkNames(e.q, p, &e.problems); err != nil {
		return err
	}
	if err := e.problems.Err(); err != nil {
		return err
	}
	if err := p.Mutable(); err != nil {
		return err
	}
	if err := p.sealCredentials(e.key); err != nil {
		return err
	}
	if e.unpublished {
		if err := identity.NoteChange(e.q); err != nil {
			return err
		}
	}
	return save(e.q, p)
}

// checkNames reports a name or slug that another pipeline has. The caller holds [namesLock].
func checkNames(q *db.Q, p *Pipeline, problems *core.Problems) error {
	name, slug, err := db.Taken(q, "pipelines", p.OrganizationID, p.ID, p.Name, p.Slug)
	if name {
		problems.Add("name", "has already been taken")
	}
	if slug {
		problems.Add("slug", "has already been taken")
	}
	return err
}
