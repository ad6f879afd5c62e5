package caches

import (
	"cmp"
	"slices"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A Scope is where a build saves entries, and where it looks for them.
//
// Builds of a branch, a tag and a pull request have scopes of their own. They find entries of their own scope, then those of the pull
// request's base branch, then those of the pipeline's default branch. So nothing that a pull request saves is found by
// builds of a branch. A build that another one triggered saves in a scope of its own, unless the first build of the chain was one of the
// same branch or of its pipeline's default branch: otherwise a pull request could save for a branch by triggering a build of it.
type Scope struct {
	OrganizationID string
	PipelineID     string
	Saves          string   // the scope that the build saves in
	Finds          []string // the scopes that it finds entries in, the best first
	Protected      bool     // entries of other scopes are removed first
}

// ScopeOf returns the scope of a build.
func ScopeOf(q *db.Q, org *identity.Organization, buildID string) (Scope, error) {
	b, err := builds.ByID(q, org.ID, buildID)
	if err != nil {
		return Scope{}, err
	}
	home, err := defaultScope(q, org, b)
	if err != nil {
		return Scope{}, err
	}
	own := ownScope(b)
	s := Scope{OrganizationID: org.ID, PipelineID: b.PipelineID, Saves: own, Protected: b.PullRequest == nil && !b.MarkedFork()}
	cause, err := untrustedCause(q, org, b, own)
	if err != nil {
		return Scope{}, err
	}
	if cause != "" {
		s.Saves, s.Protected = own+" by "+cause, false
	}
	s.Finds = []string{s.Saves, own}
	if pr := b.PullRequest; pr != nil && pr.Base != "" {
		s.Finds = append(s.Finds, branchScope(pr.Base))
	}
	s.Finds = append(s.Finds, home)
	s.Finds = unique(s.Finds)
	return s, nil
}

// unique returns texts without repetitions, in their order.
func unique(texts []string) (kept []string) {
	for _, text := range texts {
		if !slices.Contains(kept, text) {
			kept = append(kept, text)
		}
	}
	return kept
}

func branchScope(branch string) string { return "branch " + branch }

// ownScope returns the scope of what a build is of.
func ownScope(b *builds.Build) string {
	switch {
	case b.PullRequest != nil:
		return "pull request " + b.PullRequest.ID
	case b.MarkedFork():
		return "fork " + b.ID
	case b.Tag != "":
		return "tag " + b.Tag
	}
	return branchScope(b.Branch)
}

// defaultScope returns the scope of the default branch of a build's pipeline.
func defaultScope(q *db.Q, org *identity.Organization, b *builds.Build) (string, error) {
	p, err := pipelines.ByID(q, pipelines.System(org.ID), b.PipelineID)
	if err != nil {
		return "", err
	}
	return branchScope(p.DefaultBranch), nil
}

// maxCauses limits how many builds are followed from a build to the first one that caused it.
const maxCauses = 20

// untrustedCause returns the id of the build that caused a build, by triggers or because it was rebuilt, if it was neither of the same
// scope nor of its pipeline's default branch.
func untrustedCause(q *db.Q, org *identity.Organization, b *builds.Build, own string) (string, error) {
	first := b
	for range maxCauses {
		before := cmp.Or(first.Root, first.RebuiltFrom)
		if before == "" || before == first.ID {
			break
		}
		found, err := builds.ByID(q, org.ID, before)
		if core.KindOf(err) == core.NotFound {
			return before, nil // it was removed, so nothing is known of it
		}
		if err != nil {
			return "", err
		}
		first = found
	}
	if cmp.Or(first.Root, first.RebuiltFrom) != "" && first.Root != first.ID {
		return first.ID, nil // too many
	}
	if first.PipelineID == b.PipelineID && ownScope(first) == own {
		return "", nil
	}
	home, err := defaultScope(q, org, first)
	if err != nil || ownScope(first) == home {
		return "", err
	}
	return first.ID, nil
}
