// Package suites keeps the test suites of organizations: what they are called, which teams have access to them,
// the token that uploads results, and the policy that lets jobs upload with an OpenID Connect token instead.
//
// A suite belongs to one organization. Where the organization has teams switched off, every member can edit every
// suite. With teams, administrators can; other members see the suites of their teams, and edit those that a team
// of theirs may edit (access.go).
//
// What is uploaded to a suite is kept by package testresults.
package suites

import (
	"time"
	"unicode/utf8"

	"stackyard/internal/platform/core"
)

// TokenPrefix begins the API token of a suite.
const TokenPrefix = "svcst_"

// The bounds of what people write about a suite, in characters.
const (
	maxName        = 255
	maxApplication = 255
)

// A Suite collects the results of one set of tests.
type Suite struct {
	ID              string
	OrganizationID  string
	Slug            string // derived from the first name; it stays when the suite is renamed
	Name            string
	DefaultBranch   string // whose trends are shown; results of all branches are collected
	ApplicationName string // "": none
	Color           string // "": none
	Emoji           string // "": none
	Policy          PolicyDocument
	CreatedAt       time.Time

	sealedToken string
	editable    bool // by the caller who loaded it
}

// check adds a problem for each rule that the suite breaks, except those about other suites and about teams.
func (s *Suite) check(problems *core.Problems) {
	switch n := utf8.RuneCountInString(s.Name); {
	case n == 0:
		problems.Add("name", "is required")
	case n > maxName:
		problems.Add("name", "must have at most %d characters, not %d", maxName, n)
	}
	switch {
	case s.DefaultBranch == "":
		problems.Add("default_branch", "is required")
	case !core.ValidBranch(s.DefaultBranch):
		problems.Add("default_branch", "must be the name of a git branch, of at most %d bytes", core.MaxBranch)
	}
	if n := utf8.RuneCountInString(s.ApplicationName); n > maxApplication {
		problems.Add("application_name", "must have at most %d characters, not %d", maxApplication, n)
	}
	if s.Color != "" && !core.ValidColor(s.Color) {
		problems.Add("color", "must be a color in hex, such as #A9CCE3")
	}
	if s.Emoji != "" && !core.ValidEmoji(s.Emoji) {
		problems.Add("emoji", "must be an emoji, or the name of one between colons, such as :rocket:")
	}
}
