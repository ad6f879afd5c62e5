package pipelines

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// A Spec describes a pipeline in the organization file. The slug identifies the pipeline. Fields that the file
// leaves out keep their value; in a new pipeline they get their default.
type Spec struct {
	Line          int                             `yaml:"-"`
	Slug          string                          `yaml:"slug"`
	ID            string                          `yaml:"id"`
	Name          *string                         `yaml:"name"` // default in a new pipeline: the slug
	Description   *string                         `yaml:"description"`
	Repository    *string                         `yaml:"repository"`
	Cluster       *string                         `yaml:"cluster"` // by name
	DefaultBranch *string                         `yaml:"default_branch"`
	Visibility    *Visibility                     `yaml:"visibility"`
	Tags          []string                        `yaml:"tags"`
	Teams         map[string]identity.AccessLevel `yaml:"teams"` // by slug; other teams keep their access
	Configuration *string                         `yaml:"configuration"`
}

// Check reports errors in the pipelines of one organization.
func Check(c *core.Complaints, specs []Spec) {
	for _, s := range specs {
		s.Check(c)
	}
	core.ComplainTwice(c, specs, "pipeline", func(s Spec) (int, string) { return s.Line, s.Slug })
}

// Check reports errors in the spec that can be found without a database.
func (s Spec) Check(c *core.Complaints) {
	if !core.ValidSlug(s.Slug) {
		c.Add(s.Line, "the slug of a pipeline must begin with a letter or digit and have only lower-case letters, digits and hyphens, not %q", s.Slug)
	}
	c.CheckID(s.Line, s.ID)
	for _, team := range slices.Sorted(maps.Keys(s.Teams)) {
		if level := s.Teams[team]; !level.Valid() {
			c.Add(s.Line, "the access level of team %s must be one of %s, not %q", team, strings.Join(level.Values(), ", "), level)
		}
	}
	if s.Configuration != nil {
		var problems core.Problems
		parseYAML(*s.Configuration, &problems)
		s.complain(c, problems)
	}
}

// complain reports errors in the pipeline's fields at the line of the spec.
func (s Spec) complain(c *core.Complaints, problems core.Problems) {
	for _, problem := range problems {
		c.Add(s.Line, "pipeline %s: %s %s", s.Slug, problem.Field, problem.Code)
	}
}

// Apply creates or updates pipelines of an organization. It keeps what the specs do not name. key encrypts
// credentials in repository URLs. The specs have passed Check, and their clusters and teams have been applied.
func Apply(in identity.Applying, key seal.Key, specs []Spec) error {
	a := applier{in, operator(in.Org), key}
	for _, spec := range specs {
		if err := a.pipeline(spec); err != nil {
			return err
		}
	}
	return nil
}

// operator returns the viewer who runs the installation and can do everything.
func operator(org *identity.Organization) Viewer {
	return Viewer{Org: org, Member: &identity.Membership{OrganizationID: org.ID, Role: identity.Admin}}
}

// An applier applies one organization's part of a file.
type applier struct {
	identity.Applying
	v   Viewer
	key seal.Key
}

func (a *applier) pipeline(spec Spec) error {
	e, err := beginEdit(a.Q, a.v, a.key, nil)
	if err != nil {
		return err
	}
	known, err := BySlug(a.Q, a.v, spec.Slug)
	if core.KindOf(err) == core.NotFound {
		return a.newPipeline(e, spec)
	}
	if err != nil {
		return err
	}
	if id, given := core.ParseID(spec.ID); given && id != known.ID {
		a.Complaints.Add(spec.Line, "the pipeline %s exists with the id %s, which cannot be changed", known.Slug, known.ID)
		return nil
	}
	return a.changePipeline(e, known.ID, spec)
}

func (a *applier) newPipeline(e *edit, spec Spec) error {
	id, free, err := db.FreeID(a.Q, "pipelines", spec.ID)
	if err != nil {
		return err
	}
	if !free {
		a.Complaints.Add(spec.Line, "the id %s belongs to another pipeline", id)
		return nil
	}
	p := newPipeline(a.v.Org, nil, a.Now)
	p.ID, p.Slug, p.Name, p.DefaultBranch = id, spec.Slug, spec.Slug, e.settings.DefaultBranch
	p.DefaultTimeout = e.newTimeout(nil)
	if spec.Cluster == nil {
		if p.ClusterID, err = e.newCluster(""); err != nil {
			return err
		}
	}
	if spec.Configuration == nil {
		e.problems.Add("configuration", "is required")
	}
	if valid, err := a.merge(e, p, spec); err != nil || !valid {
		return err
	}
	if err := save(a.Q, p); err != nil {
		return err
	}
	a.Changes.Created("pipeline", a.name(p))
	_, err = a.grant(p, spec)
	return err
}

func (a *applier) changePipeline(e *edit, id string, spec Spec) error {
	p, err := lock(a.Q, a.v, id)
	if err != nil {
		return err
	}
	was := *p
	if valid, err := a.merge(e, p, spec); err != nil || !valid {
		return err
	}
	changed := !reflect.DeepEqual(*p, was)
	if changed {
		if err := save(a.Q, p); err != nil {
			return err
		}
	}
	granted, err := a.grant(p, spec)
	if changed || granted {
		a.Changes.Changed("pipeline", a.name(p))
	}
	return err
}

// name returns the name of a pipeline in the list of changes.
func (a *applier) name(p *Pipeline) string { return a.v.Org.Slug + "/" + p.Slug }

// merge writes a spec into a pipeline and reports whether the result is valid. It adds complaints otherwise.
func (a *applier) merge(e *edit, p *Pipeline, spec Spec) (valid bool, err error) {
	if err := a.cluster(p, spec); err != nil {
		return false, err
	}
	spec.applyTo(p, &e.problems)
	p.check(&e.problems)
	if err := checkNames(a.Q, p, &e.problems); err != nil {
		return false, err
	}
	spec.complain(a.Complaints, e.problems)
	if len(e.problems) > 0 {
		return false, nil
	}
	return true, p.sealCredentials(e.key)
}

// cluster sets the cluster of a pipeline if the spec names one.
func (a *applier) cluster(p *Pipeline, spec Spec) error {
	if spec.Cluster == nil {
		return nil
	}
	c, err := clusters.ByName(a.Q, a.v.Org.ID, *spec.Cluster)
	if core.KindOf(err) == core.NotFound {
		a.Complaints.Add(spec.Line, "pipeline %s: there is no cluster %q", spec.Slug, *spec.Cluster)
		return nil
	}
	p.ClusterID = c.ID
	return err
}

// applyTo writes the fields that the spec gives into p.
func (s Spec) applyTo(p *Pipeline, problems *core.Problems) {
	core.SetGiven(&p.Name, s.Name)
	core.SetGiven(&p.Description, s.Description)
	core.SetGiven(&p.Repository, s.Repository)
	core.SetGiven(&p.DefaultBranch, s.DefaultBranch)
	core.SetGiven(&p.Visibility, s.Visibility)
	if s.Tags != nil && !slices.Equal(s.Tags, p.Tags) {
		p.Tags = s.Tags
	}
	if s.Configuration != nil && (*s.Configuration != p.Configuration || p.TemplateID != "") {
		p.TemplateID = ""
		p.Configuration, p.Steps, p.Env = *s.Configuration, parseYAML(*s.Configuration, problems), map[string]string{}
	}
}

// grant gives the teams of a spec their access and reports whether anything changed.
func (a *applier) grant(p *Pipeline, spec Spec) (changed bool, err error) {
	for _, slug := range slices.Sorted(maps.Keys(spec.Teams)) {
		var id, level string
		err := a.Q.QueryRow(`
			SELECT t.id, COALESCE(tp.access_level, '')
			FROM teams t
			LEFT JOIN team_pipelines tp ON tp.team_id = t.id AND tp.pipeline_id = $3
			WHERE t.organization_id = $1 AND t.slug = $2`, p.OrganizationID, slug, p.ID).Scan(&id, &level)
		if errors.Is(err, db.ErrNoRows) {
			a.Complaints.Add(spec.Line, "pipeline %s: there is no team %q", spec.Slug, slug)
			continue
		}
		if err != nil {
			return false, err
		}
		if level == string(spec.Teams[slug]) {
			continue
		}
		changed = true
		if err := grant(a.Q, p, teamLevels{id: spec.Teams[slug]}, a.Now); err != nil {
			return false, err
		}
	}
	return changed, nil
}
