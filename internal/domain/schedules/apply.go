package schedules

import (
	"errors"
	"reflect"
	"strings"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/cron"
)

// A Spec describes a schedule of a pipeline in the organization file. The label identifies the schedule in its
// pipeline. Fields that the file leaves out keep their value; in a new schedule they get their default.
type Spec struct {
	Line     int               `yaml:"-"`
	Label    string            `yaml:"label"`
	Cronline *string           `yaml:"cronline"`
	Message  *string           `yaml:"message"`
	Commit   *string           `yaml:"commit"`
	Branch   *string           `yaml:"branch"`
	Env      map[string]string `yaml:"env"`
	Enabled  *bool             `yaml:"enabled"`
}

// Check reports errors in the schedules of one pipeline that can be found without a database.
func Check(c *core.Complaints, specs []Spec) {
	for _, s := range specs {
		if strings.TrimSpace(s.Label) == "" {
			c.Add(s.Line, "a schedule needs a label, by which it is found when the file is applied again")
		}
		if s.Cronline == nil {
			continue
		}
		if _, err := cron.Parse(strings.TrimSpace(*s.Cronline)); err != nil {
			c.Add(s.Line, "schedule %s: cronline %s", s.Label, err)
		}
	}
	core.ComplainTwice(c, specs, "schedule", func(s Spec) (int, string) { return s.Line, s.Label })
}

// Apply creates or updates schedules of a pipeline. It keeps what the specs do not name. The specs have passed Check, and
// the pipeline has been applied.
func Apply(in identity.Applying, slug string, specs []Spec) error {
	if len(specs) == 0 {
		return nil
	}
	p, err := pipelines.BySlug(in.Q, pipelines.System(in.Org.ID), slug)
	if core.KindOf(err) == core.NotFound {
		return nil // there is a complaint about the pipeline
	}
	if err != nil {
		return err
	}
	for _, spec := range specs {
		if err := spec.apply(in, p); err != nil {
			return err
		}
	}
	return nil
}

func (s Spec) apply(in identity.Applying, p *pipelines.Pipeline) error {
	sched, err := byLabel(in.Q, p.ID, s.Label)
	created := errors.Is(err, db.ErrNoRows)
	switch {
	case created:
		sched = Schedule{ID: core.NewID(), OrganizationID: p.OrganizationID, PipelineID: p.ID, Label: s.Label, Env: map[string]string{}, Enabled: true, CreatedAt: in.Now}
	case err != nil:
		return err
	}
	before := sched
	s.applyTo(&sched)
	if !created && reflect.DeepEqual(sched, before) {
		return nil
	}
	if err := p.Mutable(); err != nil {
		in.Complaints.Add(s.Line, "schedule %s: %s", s.Label, err)
		return nil
	}
	if created {
		err = checkCount(in.Q, p.ID)
	}
	if sched.Enabled && !before.Enabled {
		sched.clearFailure()
	}
	if err == nil {
		err = sched.check(in.Now, created || sched.Cronline != before.Cronline || !before.Enabled)
	}
	if wrong, ok := errors.AsType[*core.Error](err); ok {
		s.complain(in.Complaints, wrong)
		return nil
	}
	if err != nil {
		return err
	}
	if err := save(in.Q, sched); err != nil {
		return err
	}
	name := in.Org.Slug + "/" + p.Slug + " " + sched.Label
	if created {
		in.Changes.Created("schedule", name)
	} else {
		in.Changes.Changed("schedule", name)
	}
	if !created && sched.NextAt.Equal(before.NextAt) {
		return nil
	}
	return enqueue(in.Q, &sched)
}

// applyTo writes the fields that the spec gives into a schedule.
func (s Spec) applyTo(sched *Schedule) {
	for _, text := range []struct {
		given *string
		dst   *string
	}{{s.Cronline, &sched.Cronline}, {s.Message, &sched.Message}, {s.Commit, &sched.Commit}, {s.Branch, &sched.Branch}} {
		if text.given != nil {
			*text.dst = strings.TrimSpace(*text.given)
		}
	}
	if s.Env != nil {
		sched.Env = s.Env
	}
	core.SetGiven(&sched.Enabled, s.Enabled)
}

// complain reports why a schedule cannot be saved.
func (s Spec) complain(c *core.Complaints, wrong *core.Error) {
	if len(wrong.Fields) == 0 {
		c.Add(s.Line, "schedule %s: %s", s.Label, wrong.Message)
	}
	for _, f := range wrong.Fields {
		c.Add(s.Line, "schedule %s: %s %s", s.Label, f.Field, f.Code)
	}
}
