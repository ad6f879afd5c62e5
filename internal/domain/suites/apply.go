package suites

import (
	"encoding/json"
	"strings"

	"stackyard/internal/domain/organizations"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// A Spec describes a suite in the organization file. The slug identifies the suite. Fields that the file leaves out
// keep their value; in a new suite they get their default.
type Spec struct {
	Line            int      `yaml:"-"`
	Slug            string   `yaml:"slug"`
	ID              string   `yaml:"id"`
	Name            *string  `yaml:"name"`           // default in a new suite: the slug
	DefaultBranch   *string  `yaml:"default_branch"` // default in a new suite: main
	ApplicationName *string  `yaml:"application_name"`
	Color           *string  `yaml:"color"`
	Emoji           *string  `yaml:"emoji"`
	Policy          *string  `yaml:"oidc_policy"` // a text of YAML; blank: none
	Token           string   `yaml:"token"`       // generated once if it is not given
	Teams           []string `yaml:"teams"`       // slugs of teams that can edit the suite; others keep their access
}

// maxToken is the length of the longest token that a file can give.
const maxToken = 255

// Check reports errors in the suites of one organization that can be found without a database.
func Check(c *core.Complaints, specs []Spec) {
	for _, s := range specs {
		if !core.ValidSlug(s.Slug) {
			c.Add(s.Line, "the slug of a suite must begin with a letter or digit and have only lower-case letters, digits and hyphens, not %q", s.Slug)
		}
		c.CheckID(s.Line, s.ID)
		if len(s.Token) > maxToken || strings.ContainsFunc(s.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			c.Add(s.Line, "a token must have at most %d characters and no spaces", maxToken)
		}
	}
	core.ComplainTwice(c, specs, "suite", func(s Spec) (int, string) { return s.Line, s.Slug })
}

// Apply creates or updates suites of an organization. It keeps what the specs do not name. The specs have passed Check,
// and their teams have been applied. Tokens are sealed under the key.
func Apply(in identity.Applying, key seal.Key, specs []Spec) error {
	if len(specs) == 0 {
		return nil
	}
	if err := in.Q.LockName(namesLock(in.Org.ID)); err != nil {
		return err
	}
	a := applier{in, key}
	for _, spec := range specs {
		if err := a.suite(spec); err != nil {
			return err
		}
	}
	return nil
}

// An applier applies one organization's part of a file.
type applier struct {
	identity.Applying
	key seal.Key
}

func (a *applier) suite(spec Spec) error {
	suite, err := InOrganization(a.Q, a.Org.ID, spec.Slug)
	if core.KindOf(err) == core.NotFound {
		return a.newSuite(spec)
	}
	if err != nil {
		return err
	}
	if id, given := core.ParseID(spec.ID); given && id != suite.ID {
		a.Complaints.Add(spec.Line, "the suite %s exists with the id %s, which cannot be changed", suite.Slug, suite.ID)
		return nil
	}
	was := *suite
	if valid, err := a.merge(suite, spec); err != nil || !valid {
		return err
	}
	changed := *suite != was
	if changed {
		if err := update(a.Q, suite); err != nil {
			return err
		}
	}
	replaced, err := a.replaceToken(suite, spec)
	if err != nil {
		return err
	}
	granted, err := a.grant(suite, spec)
	if changed || replaced || granted {
		a.Changes.Changed("suite", a.name(suite))
	}
	return err
}

func (a *applier) newSuite(spec Spec) error {
	id, free, err := db.FreeID(a.Q, "suites", spec.ID)
	if err != nil {
		return err
	}
	if !free {
		a.Complaints.Add(spec.Line, "the id %s belongs to another suite", id)
		return nil
	}
	suite := &Suite{ID: id, OrganizationID: a.Org.ID, Slug: spec.Slug, Name: spec.Slug, DefaultBranch: "main", CreatedAt: a.Now}
	if valid, err := a.merge(suite, spec); err != nil || !valid {
		return err
	}
	token := spec.Token
	if token == "" {
		token = seal.NewToken(TokenPrefix)
	}
	if free, err := a.tokenIsFree(suite, spec); err != nil || !free {
		return err
	}
	if suite.sealedToken, err = a.key.Seal([]byte(token), tokenContext(suite.ID)); err != nil {
		return err
	}
	if err := insert(a.Q, suite, token); err != nil {
		return err
	}
	a.Changes.Created("suite", a.name(suite))
	if spec.Token == "" {
		a.Changes.Token("suite", a.name(suite), token)
	}
	_, err = a.grant(suite, spec)
	return err
}

// name returns the name of a suite in the list of changes.
func (a *applier) name(s *Suite) string { return a.Org.Slug + "/" + s.Slug }

// merge writes a spec into a suite and reports whether the result is valid. It adds complaints otherwise.
func (a *applier) merge(suite *Suite, spec Spec) (valid bool, err error) {
	core.SetGiven(&suite.Name, spec.Name)
	core.SetGiven(&suite.DefaultBranch, spec.DefaultBranch)
	core.SetGiven(&suite.ApplicationName, spec.ApplicationName)
	core.SetGiven(&suite.Color, spec.Color)
	core.SetGiven(&suite.Emoji, spec.Emoji)
	var problems core.Problems
	if spec.Policy != nil {
		text, err := json.Marshal(*spec.Policy)
		if err != nil {
			return false, err
		}
		if suite.Policy = PolicyDocument(text); suite.Policy.blank() {
			suite.Policy = ""
		}
		if _, err := suite.Policy.Parse(); err != nil {
			problems.Add("oidc_policy", "%s", err)
		}
	}
	suite.check(&problems)
	if err := checkNames(a.Q, suite, &problems); err != nil {
		return false, err
	}
	for _, problem := range problems {
		a.Complaints.Add(spec.Line, "suite %s: %s %s", spec.Slug, problem.Field, problem.Code)
	}
	return len(problems) == 0, nil
}

// tokenIsFree reports whether no other suite has the token that a spec gives. It adds a complaint otherwise.
func (a *applier) tokenIsFree(suite *Suite, spec Spec) (bool, error) {
	other, err := ByToken(a.Q, spec.Token)
	if core.KindOf(err) == core.Unauthorized {
		return true, nil
	}
	if err == nil && other.ID != suite.ID {
		a.Complaints.Add(spec.Line, "the token of suite %s is the token of another suite", spec.Slug)
		return false, nil
	}
	return err == nil, err
}

// replaceToken gives a suite the token of a spec, if it gives another one, and reports whether it did.
func (a *applier) replaceToken(suite *Suite, spec Spec) (replaced bool, err error) {
	if spec.Token == "" {
		return false, nil
	}
	if token, err := a.key.Open(suite.sealedToken, tokenContext(suite.ID)); err != nil || string(token) == spec.Token {
		return false, err
	}
	if free, err := a.tokenIsFree(suite, spec); err != nil || !free {
		return false, err
	}
	if suite.sealedToken, err = a.key.Seal([]byte(spec.Token), tokenContext(suite.ID)); err != nil {
		return false, err
	}
	_, err = suiteRows.Exec(a.Q, suite.ID, `UPDATE suites SET token = $2, token_hash = $3 WHERE id = $1`, suite.ID, suite.sealedToken, seal.HashToken(spec.Token))
	return true, err
}

// grant lets the teams of a spec edit the suite and reports whether anything changed.
func (a *applier) grant(suite *Suite, spec Spec) (changed bool, err error) {
	for _, slug := range spec.Teams {
		team, err := organizations.TeamBySlug(a.Q, a.Org.ID, slug)
		if core.KindOf(err) == core.NotFound {
			a.Complaints.Add(spec.Line, "suite %s: there is no team %q", spec.Slug, slug)
			continue
		}
		if err != nil {
			return false, err
		}
		n, err := teamSuiteRows.Exec(a.Q, team.ID+"/"+suite.ID, `
			INSERT INTO team_suites AS t (team_id, suite_id, can_edit, created_at) VALUES ($1, $2, TRUE, $3)
			ON CONFLICT (team_id, suite_id) DO UPDATE SET can_edit = TRUE WHERE NOT t.can_edit`,
			team.ID, suite.ID, db.Micros(a.Now))
		if err != nil {
			return false, err
		}
		changed = changed || n > 0
	}
	return changed, nil
}
