package organizations

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode"

	"stackyard/internal/domain/account"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// A MemberSpec describes a member in the organization file. The name and the password belong to the user and
// therefore apply in every organization.
type MemberSpec struct {
	Line         int                   `yaml:"-"`
	Email        string                `yaml:"email"`
	ID           string                `yaml:"id"`
	Name         *string               `yaml:"name"`
	Role         *identity.Role        `yaml:"role"`
	Password     *string               `yaml:"password"`
	Permissions  []identity.Permission `yaml:"permissions"` // nil: unchanged
	AccessTokens []AccessTokenSpec     `yaml:"access_tokens"`
}

// email returns the normalized address, which identifies the user.
func (s MemberSpec) email() string { return normalizeEmail(s.Email) }

func normalizeEmail(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

// Check reports errors in the spec that can be found without a database.
func (s MemberSpec) Check(c *core.Complaints) {
	checkEmail(c, s.Line, s.email())
	c.CheckID(s.Line, s.ID)
	if s.Name != nil {
		checkName(c, s.Line, *s.Name)
	}
	if s.Role != nil && !oneOf(*s.Role) {
		c.Add(s.Line, "%q is not a role; the roles are %s", *s.Role, list(*s.Role))
	}
	if s.Password != nil && (*s.Password == "" || len(*s.Password) > seal.MaxPassword) {
		c.Add(s.Line, "a password must have 1 to %d bytes", seal.MaxPassword)
	}
	for _, p := range s.Permissions {
		if !slices.Contains(identity.GrantablePermissions, p) {
			c.Add(s.Line, "%q is not a permission that members can have", p)
		}
	}
	for _, t := range s.AccessTokens {
		t.Check(c)
	}
	core.ComplainTwice(c, s.AccessTokens, "access token", AccessTokenSpec.key)
}

// checkEmail reports text that cannot be an email address. It does not prove that the address exists.
func checkEmail(c *core.Complaints, line int, email string) {
	local, domain, ok := strings.Cut(email, "@")
	if !ok || local == "" || domain == "" || len(email) > 254 || strings.Contains(domain, "@") || strings.ContainsFunc(email, isBlank) {
		c.Add(line, "%q is not an email address", email)
	}
}

// isBlank reports whether r is invisible.
func isBlank(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }

// CheckMembers reports errors in the members of one organization.
func CheckMembers(c *core.Complaints, specs []MemberSpec) {
	for _, s := range specs {
		s.Check(c)
	}
	core.ComplainTwice(c, specs, "member", func(s MemberSpec) (int, string) { return s.Line, s.email() })
}

// CheckUsers reports users and tokens that appear in several organizations of one file with different values.
// Each apply would otherwise change them back and forth.
func CheckUsers(c *core.Complaints, members []MemberSpec) {
	people := make(map[string]MemberSpec)
	type owned struct {
		AccessTokenSpec
		email string
	}
	tokens := make(map[string]owned)
	for _, s := range members {
		if before, ok := people[s.email()]; !ok {
			people[s.email()] = s
		} else if conflict(before.Name, s.Name) || conflict(before.Password, s.Password) || before.ID != "" && s.ID != "" && !strings.EqualFold(before.ID, s.ID) {
			c.Add(s.Line, "%s is the same person as at line %d and must have the same id, name and password", s.email(), before.Line)
		}
		for _, t := range s.AccessTokens {
			if t.Token == "" {
				continue
			}
			if before, ok := tokens[t.Token]; !ok {
				tokens[t.Token] = owned{t, s.email()}
			} else if before.email != s.email() || !before.same(t) {
				c.Add(t.Line, "this is the same token as at line %d and must say the same: member, description, scopes and expiry", before.Line)
			}
		}
	}
}

// conflict reports whether both values are given and differ.
func conflict[T comparable](a, b *T) bool { return a != nil && b != nil && *a != *b }

// Passwords maps emails to new password hashes. HashPasswords makes it for ApplyMembers.
type Passwords map[string]string

// HashPasswords hashes the passwords that differ from the stored ones. Hashing is slow on purpose, so it
// happens before the transaction that applies the file.
func HashPasswords(ctx context.Context, d *db.DB, specs []MemberSpec) (Passwords, error) {
	given := make(map[string]string)
	for _, s := range specs {
		if s.Password != nil {
			given[s.email()] = *s.Password
		}
	}
	if len(given) == 0 {
		return nil, nil
	}
	var stored map[string]string
	err := d.Read(ctx, func(q *db.Q) (err error) {
		stored, err = account.PasswordHashes(q, slices.Sorted(maps.Keys(given)))
		return err
	})
	if err != nil {
		return nil, err
	}
	hashes := make(Passwords)
	for email, password := range given {
		if stored[email] != "" && seal.CheckPassword(stored[email], password) {
			continue
		}
		if hashes[email], err = seal.HashPassword(password); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// ApplyMembers creates or updates the members of an organization and their access tokens. New members join the
// organization's default teams.
func ApplyMembers(in identity.Applying, specs []MemberSpec, passwords Passwords) error {
	a := applier{in}
	for _, spec := range specs {
		if err := a.member(spec, passwords[spec.email()]); err != nil {
			return err
		}
	}
	return nil
}

// An applier applies one organization's part of a file.
type applier struct{ identity.Applying }

func (a *applier) member(spec MemberSpec, passwordHash string) error {
	user, changed, err := a.user(spec, passwordHash)
	if err != nil || user == nil {
		return err
	}
	name := a.Org.Slug + "/" + user.Email
	known, err := memberByID(a.Q, a.Org.ID, user.ID)
	switch {
	case core.KindOf(err) == core.NotFound:
		m := Member{User: *user, Role: identity.Member, SSOMode: identity.SSOOptional, CreatedAt: a.Now}
		spec.applyTo(&m)
		if err := addMember(a.Q, a.Org.ID, m); err != nil {
			return err
		}
		a.Changes.Created("member", name)
	case err != nil:
		return err
	default:
		wanted := known
		spec.applyTo(&wanted)
		if wanted.Role != known.Role || !slices.Equal(wanted.Permissions, known.Permissions) {
			changed = true
			if err := updateMember(a.Q, a.Org.ID, wanted); err != nil {
				return err
			}
		}
		if changed {
			a.Changes.Changed("member", name)
		}
	}
	for _, t := range spec.AccessTokens {
		if err := a.accessToken(*user, t); err != nil {
			return err
		}
	}
	return nil
}

// applyTo writes the fields that the spec gives into m.
func (s MemberSpec) applyTo(m *Member) {
	core.SetGiven(&m.Role, s.Role)
	if s.Permissions != nil {
		m.Permissions = slices.Compact(slices.Sorted(slices.Values(s.Permissions)))
	}
}

// user finds or creates the user. It returns nil after a complaint. changed reports whether an existing user
// was changed.
func (a *applier) user(spec MemberSpec, passwordHash string) (user *identity.User, changed bool, err error) {
	known, err := account.UserByEmail(a.Q, spec.email())
	if errors.Is(err, db.ErrNoRows) {
		user, err = a.newUser(spec, passwordHash)
		return user, false, err
	}
	if err != nil {
		return nil, false, err
	}
	if id, given := core.ParseID(spec.ID); given && id != known.ID {
		a.Complaints.Add(spec.Line, "%s exists with the id %s, which cannot be changed", known.Email, known.ID)
		return nil, false, nil
	}
	if conflict(spec.Name, &known.Name) {
		changed, known.Name = true, *spec.Name
		if err := account.RenameUser(a.Q, known); err != nil {
			return nil, false, err
		}
	}
	if passwordHash != "" {
		changed = true
		if err := account.ReplacePassword(a.Q, known.ID, passwordHash); err != nil {
			return nil, false, err
		}
	}
	return &known, changed, nil
}

func (a *applier) newUser(spec MemberSpec, passwordHash string) (*identity.User, error) {
	id, ok, err := account.FreeUserID(a.Q, spec.ID)
	if err != nil {
		return nil, err
	}
	if !ok {
		a.Complaints.Add(spec.Line, "the id %s belongs to another user", id)
		return nil, nil
	}
	local, _, _ := strings.Cut(spec.email(), "@")
	user := identity.User{ID: id, Email: spec.email(), Name: *cmp.Or(spec.Name, &local), CreatedAt: a.Now}
	return &user, account.InsertUser(a.Q, user, passwordHash)
}
