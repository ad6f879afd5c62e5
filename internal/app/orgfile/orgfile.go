// Package orgfile applies organization files: YAML that declares organizations with their members, tokens,
// teams, clusters, queues, applications, pipelines and test suites.
//
// Each capability package declares its part of the file in its apply.go. This package decodes a file, checks
// all parts, and applies them in one transaction: everything takes effect, or nothing. It reports all errors of
// a file at once, by line.
package orgfile

import (
	"context"
	"os/user"
	"time"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/connections"
	"stackyard/internal/domain/oauth"
	"stackyard/internal/domain/organizations"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/schedules"
	"stackyard/internal/domain/suites"
	"stackyard/internal/platform/audit"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// file is an organization file.
type file struct {
	Organizations []organization `yaml:"organizations"`
}

// organization is one organization in a file.
type organization struct {
	Line                           int `yaml:"-"`
	organizations.OrganizationSpec `yaml:",inline"`
	Members                        []organizations.MemberSpec `yaml:"members"`
	Teams                          []organizations.TeamSpec   `yaml:"teams"`
	Clusters                       []clusters.Spec            `yaml:"clusters"`
	Applications                   []oauth.Spec               `yaml:"oauth_applications"`
	SourceConnections              []connections.Spec         `yaml:"source_connections"`
	Pipelines                      []pipeline                 `yaml:"pipelines"`
	Suites                         []suites.Spec              `yaml:"suites"`
}

// pipeline is one pipeline in a file, with its schedules.
type pipeline struct {
	Line           int `yaml:"-"`
	pipelines.Spec `yaml:",inline"`
	Schedules      []schedules.Spec `yaml:"schedules"`
}

// pipelines returns the pipelines alone.
func (o organization) pipelines() []pipelines.Spec {
	var specs []pipelines.Spec
	for _, p := range o.Pipelines {
		specs = append(specs, p.Spec)
	}
	return specs
}

// Apply applies a file and returns a line for each thing that it created or changed and for each token that it
// generated. If the file has errors, it returns core.Complaints and applies nothing.
func Apply(ctx context.Context, d *db.DB, key seal.Key, clock core.Clock, source []byte) ([]string, error) {
	f, err := parse(source)
	if err != nil {
		return nil, err
	}
	passwords, err := organizations.HashPasswords(ctx, d, f.members())
	if err != nil {
		return nil, err
	}
	var changes core.Changes
	err = d.Write(audit.With(ctx, operator()), func(q *db.Q) error {
		changes = core.Changes{}
		if err := f.apply(q, key, passwords, clock(), &changes); err != nil || len(changes.Lines) == 0 {
			return err
		}
		return identity.NoteChange(q)
	})
	if err != nil {
		return nil, err
	}
	return changes.Lines, nil
}

// operator returns the actor of changes that an organization file makes: whoever runs the program.
func operator() audit.Actor {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return audit.Actor{Type: audit.Operator, Name: name, Channel: audit.Apply}
}

// parse decodes a file and checks what can be checked without a database.
func parse(source []byte) (*file, error) {
	var f file
	var complaints, more core.Complaints
	incomplete := decode(source, &f, &complaints)
	f.check(&more)
	for _, c := range more {
		// Errors about a mapping with a missing value may be wrong.
		if !incomplete[c.Line] {
			complaints = append(complaints, c)
		}
	}
	return &f, complaints.Err()
}

func (f *file) check(c *core.Complaints) {
	var applications []oauth.Spec
	core.ComplainTwice(c, f.Organizations, "organization", func(o organization) (int, string) { return o.Line, o.Slug })
	for _, o := range f.Organizations {
		o.Check(c)
		organizations.CheckMembers(c, o.Members)
		organizations.CheckTeams(c, o.Teams)
		clusters.Check(c, o.Clusters)
		connections.Check(c, o.SourceConnections)
		pipelines.Check(c, o.pipelines())
		for _, p := range o.Pipelines {
			schedules.Check(c, p.Schedules)
		}
		suites.Check(c, o.Suites)
		applications = append(applications, o.Applications...)
	}
	organizations.CheckUsers(c, f.members())
	oauth.CheckAll(c, applications)
}

// members returns the members of all organizations.
func (f *file) members() []organizations.MemberSpec {
	var all []organizations.MemberSpec
	for _, o := range f.Organizations {
		all = append(all, o.Members...)
	}
	return all
}

func (f *file) apply(q *db.Q, key seal.Key, passwords organizations.Passwords, now time.Time, changes *core.Changes) error {
	var complaints core.Complaints
	for _, o := range f.Organizations {
		org, err := organizations.ApplyOrganization(q, o.OrganizationSpec, now, changes, &complaints)
		if err != nil {
			return err
		}
		if org == nil {
			continue
		}
		in := identity.Applying{Q: q, Org: org, Now: now, Changes: changes, Complaints: &complaints}
		parts := []func() error{
			func() error { return organizations.ApplyMembers(in, o.Members, passwords) },
			func() error { return organizations.ApplyTeams(in, o.Teams) },
			func() error { return clusters.Apply(in, o.Clusters) },
			func() error { return oauth.Apply(in, o.Applications) },
			func() error { return connections.Apply(in, key, o.SourceConnections) },
			func() error { return pipelines.Apply(in, key, o.pipelines()) },
			func() error { return o.applySchedules(in) },
			func() error { return suites.Apply(in, key, o.Suites) },
		}
		for _, apply := range parts {
			if err := apply(); err != nil {
				return err
			}
		}
	}
	return complaints.Err()
}

func (o organization) applySchedules(in identity.Applying) error {
	for _, p := range o.Pipelines {
		if err := schedules.Apply(in, p.Slug, p.Schedules); err != nil {
			return err
		}
	}
	return nil
}
