package organizations

import (
	"context"
	"errors"
	"strings"
	"time"

	"stackyard/internal/domain/account"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// InvitationLifetime is how long the link of an invitation can be used.
const InvitationLifetime = 7 * 24 * time.Hour

// maxInvitations bounds the open invitations of an organization.
const maxInvitations = 500

// An Invitation lets the person with an email join an organization. Its link works once.
type Invitation struct {
	ID             string
	OrganizationID string
	Email          string
	Role           identity.Role
	CreatedBy      *identity.User // nil: deleted
	CreatedAt      time.Time
	ExpiresAt      time.Time
}

var errInvitation = core.Errorf(core.Gone, "This invitation has been used or withdrawn, or it has expired. Ask an administrator of the organization for a new one.")

// Invite creates an invitation and returns the token of its link, which cannot be read again. It replaces an
// earlier invitation of the same email.
func (s *Service) Invite(ctx context.Context, organizationID, email string, role identity.Role, by identity.User) (i Invitation, token string, err error) {
	i = Invitation{ID: core.NewID(), OrganizationID: organizationID, Email: account.NormalizeEmail(email), Role: role, CreatedBy: &by}
	var problems core.Problems
	var complaints core.Complaints
	if checkEmail(&complaints, 0, i.Email); len(complaints) > 0 {
		problems.Add("email", "is not an email address")
	}
	requireOneOf(&problems, "role", role)
	if err := problems.Err(); err != nil {
		return i, "", err
	}
	token = seal.NewToken("")
	err = s.db.Write(ctx, func(q *db.Q) error {
		if err := q.Lock("organizations", organizationID); err != nil {
			return err
		}
		i.CreatedAt = s.clock()
		i.ExpiresAt = i.CreatedAt.Add(InvitationLifetime)
		if _, err := memberByEmail(q, organizationID, i.Email); err == nil {
			return core.Problems{{Field: "email", Code: "is already a member"}}.Err()
		} else if core.KindOf(err) != core.NotFound {
			return err
		}
		if err := deleteStaleInvitations(q, organizationID, i.Email, i.CreatedAt); err != nil {
			return err
		}
		open, err := countInvitations(q, organizationID)
		if err != nil {
			return err
		}
		if open >= maxInvitations {
			return core.Errorf(core.Unprocessable, "An organization can have %d open invitations; withdraw some first", maxInvitations)
		}
		return insertInvitation(q, i, seal.HashToken(token))
	})
	return i, token, err
}

// Invitations returns one page of the open invitations of an organization, newest first, and the total.
func (s *Service) Invitations(ctx context.Context, organizationID string, limit, offset int) (list []Invitation, total int, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		list, total, err = listInvitations(q, organizationID, s.clock(), limit, offset)
		return err
	})
	return list, total, err
}

// Withdraw deletes an invitation, or returns a NotFound error.
func (s *Service) Withdraw(ctx context.Context, organizationID, id string) error {
	return s.db.Write(ctx, func(q *db.Q) error { return deleteInvitation(q, organizationID, id) })
}

// Invited returns the invitation of a link, its organization, and whether a user with its email exists. It
// returns a Gone error if the link can no longer be used.
func (s *Service) Invited(ctx context.Context, token string) (i Invitation, org *identity.Organization, known bool, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		if i, err = invitationByHash(q, seal.HashToken(token), s.clock()); err != nil {
			return err
		}
		_, err := account.UserByEmail(q, i.Email)
		known = err == nil
		if errors.Is(err, db.ErrNoRows) {
			return nil
		}
		return err
	})
	if err == nil {
		org, err = s.directory.OrganizationByID(ctx, i.OrganizationID)
	}
	return i, org, known, err
}

// Join accepts an invitation for a signed-in user, who must have the invited email.
func (s *Service) Join(ctx context.Context, token string, user identity.User) error {
	return s.directory.Change(ctx, func(q *db.Q) error {
		i, err := s.takeInvitation(q, token)
		if err != nil {
			return err
		}
		if i.Email != user.Email {
			return core.Errorf(core.Forbidden, "This invitation is for %s, and you are signed in as %s. Sign out and open the link again.", i.Email, user.Email)
		}
		return s.join(q, i, user)
	})
}

// SignUp accepts an invitation for a person who is new here: it creates the user and starts a session, as
// account.SignIn does. A user with the invited email must sign in and join instead: the link alone does not
// give access to an existing user.
func (s *Service) SignUp(ctx context.Context, accounts *account.Service, token, name, password string, from account.Origin, before string) (value string, err error) {
	i, _, _, err := s.Invited(ctx, token)
	if err != nil {
		return "", err
	}
	name = strings.TrimSpace(name)
	var problems core.Problems
	checkPersonName(&problems, name)
	account.CheckNewPassword(&problems, i.Email, password)
	if err := problems.Err(); err != nil {
		return "", err
	}
	hash, err := seal.HashPassword(password)
	if err != nil {
		return "", err
	}
	err = s.directory.Change(ctx, func(q *db.Q) error {
		i, err := s.takeInvitation(q, token)
		if err != nil {
			return err
		}
		switch _, err := account.UserByEmail(q, i.Email); {
		case err == nil:
			return core.Errorf(core.Unprocessable, "A user with the email %s exists. Sign in, and open the link again.", i.Email)
		case !errors.Is(err, db.ErrNoRows):
			return err
		}
		user := identity.User{ID: core.NewID(), Email: i.Email, Name: name, CreatedAt: s.clock()}
		if err := account.InsertUser(q, user, hash); err != nil {
			return err
		}
		if err := s.join(q, i, user); err != nil {
			return err
		}
		value, err = accounts.StartSession(q, user.ID, account.ByLink, from, before)
		return err
	})
	return value, err
}

// takeInvitation returns the invitation of a link and deletes it: of two concurrent uses, one finds nothing.
func (s *Service) takeInvitation(q *db.Q, token string) (Invitation, error) {
	i, err := invitationByHash(q, seal.HashToken(token), s.clock())
	if err != nil {
		return i, err
	}
	if err := q.Lock("organizations", i.OrganizationID); err != nil {
		return i, err
	}
	if err := deleteInvitation(q, i.OrganizationID, i.ID); err != nil {
		return i, errInvitation
	}
	return i, nil
}

func (s *Service) join(q *db.Q, i Invitation, user identity.User) error {
	if _, err := memberByID(q, i.OrganizationID, user.ID); err == nil {
		return nil // joined in another way meanwhile
	} else if core.KindOf(err) != core.NotFound {
		return err
	}
	return addMember(q, i.OrganizationID, Member{User: user, Role: i.Role, SSOMode: identity.SSOOptional, CreatedAt: s.clock()})
}

// checkPersonName reports a name that a user cannot have.
func checkPersonName(problems *core.Problems, name string) {
	var complaints core.Complaints
	if checkName(&complaints, 0, name); len(complaints) > 0 {
		problems.Add("name", "must have 1 to %d characters", maxName)
	}
}
