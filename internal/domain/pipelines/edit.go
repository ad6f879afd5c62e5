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

// An edit is one write of a pipeline on its way: who makes it, what holds in the organization, and
// everything found wrong so far, so that all of it is told at once.
//
// An edit locks in a fixed order, which whoever deletes a cluster, team or template keeps to as well:
// the names, the cluster, the template, the teams, and the pipeline last.
type edit struct {
	q        *db.Q
	v        Viewer
	key      seal.Key
	settings settings.Settings
	problems core.Problems
	// hides says that the pipeline was public and no longer is.
	hides bool
}

// beginEdit begins an edit with what was found wrong with the request itself.
func beginEdit(q *db.Q, v Viewer, key seal.Key, wrong core.Problems) (*edit, error) {
	set, err := settings.Of(q, v.Org.ID)
	if err != nil {
		return nil, err
	}
	e := &edit{q: q, v: v, key: key, settings: set, problems: slices.Clone(wrong)}
	return e, q.LockName(namesLock(v.Org.ID))
}

// newCluster returns the cluster of a new pipeline: the one that was asked for, or the one of the
// organization's pipeline settings, or the organization's default one.
func (e *edit) newCluster(asked string) (id string, err error) {
	if asked = cmp.Or(strings.TrimSpace(asked), e.settings.DefaultClusterID); asked != "" {
		return e.cluster(asked)
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

// newTimeout returns the default timeout of a new pipeline that says nothing about it: the organization's, or
// the pipeline's own maximum where that is less.
func (e *edit) newTimeout(most *int) *int {
	minutes := e.settings.DefaultTimeout
	if minutes == 0 {
		return nil
	}
	if most != nil {
		minutes = min(minutes, *most)
	}
	return &minutes
}

// cluster returns the id of the cluster that was asked for.
func (e *edit) cluster(asked string) (id string, err error) {
	id, ok := core.ParseID(asked)
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

// template returns the template that was asked for, nil for none.
func (e *edit) template(asked string) (*Template, error) {
	if asked == "" {
		return nil, nil
	}
	id, ok := core.ParseID(asked)
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

// usable returns the template if a pipeline may come from it, else nil. One that it comes from already
// may have become unavailable since.
func (e *edit) usable(t *Template, p *Pipeline) *Template {
	if t == nil || t.Available || t.ID == p.TemplateID || e.v.Member.Can(identity.ManageTemplates, e.v.Org) {
		return t
	}
	e.problems.Add("pipeline_template_uuid", "must be a template that is available to members")
	return nil
}

// apply gives a pipeline what was sent, steps included.
func (e *edit) apply(p *Pipeline, f *pipelineFields, plan plan, template *Template) (err error) {
	was := p.Visibility
	trimmed(f.Repository, &p.Repository)
	if p.Provider, err = providerOf(e.q, p); err != nil {
		return err
	}
	f.merge(p, &e.problems)
	plan.carryOut(p, e.usable(template, p), &e.problems)
	p.DefaultBranch = cmp.Or(p.DefaultBranch, e.settings.DefaultBranch)
	e.hides = was == Public && p.Visibility != Public
	if p.Visibility == Public && was != Public && !e.mayPublish() {
		e.problems.Add("visibility", "cannot be public; an administrator can let members create public pipelines")
	}
	if strings.TrimSpace(f.CloneMirrorURL.Value) != "" && !e.v.Org.Features.CloneMirrors {
		e.problems.Add("clone_mirror_url", "cannot be set: clone mirrors are switched off in this organization")
	}
	return nil
}

// newSlug returns the slug of a new pipeline that was given none. The caller holds [namesLock].
func (e *edit) newSlug(p *Pipeline) (slug string, err error) {
	const unnumbered = core.MaxSlug - 20 // so many characters of a slug never make room for its number
	var used map[string]bool
	slug = core.FreeSlug("pipeline", p.Name, p.ID, func(slug string) bool {
		if used == nil {
			used, err = slugsLike(e.q, p.OrganizationID, slug[:unnumbered])
		}
		return used[slug]
	})
	return slug, err
}

func (e *edit) mayPublish() bool {
	return e.settings.PublicPipelines.Enabled() || e.v.Member.Can(identity.CreatePublicPipelines, e.v.Org)
}

// commit checks the pipeline as a whole and saves it, or returns everything that is wrong.
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
	if e.hides {
		if err := identity.NoteChange(e.q); err != nil {
			return err
		}
	}
	return save(e.q, p)
}

// checkNames notes when another pipeline has the name or slug of this one. The caller holds
// [namesLock].
func checkNames(q *db.Q, p *Pipeline, problems *core.Problems) error {
	name, slug, err := taken(q, p)
	if name {
		problems.Add("name", "has already been taken")
	}
	if slug {
		problems.Add("slug", "has already been taken")
	}
	return err
}
