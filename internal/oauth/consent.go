package oauth

import (
	"net/netip"
	"slices"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/identity"
)

// A Visitor is the person on a page, who has signed in.
type Visitor struct {
	UserID  string
	Address netip.Addr // where they come from
}

// A Consent is what a person is asked before an application may act for them.
type Consent struct {
	Application Application
	// Owner is the name of the organization that looks after the application; "" where that is up to
	// whoever runs the installation. Anybody's administrators can name an application as they like.
	Owner  string
	Scopes identity.Scopes
	// Organizations are those that the person may choose from, by name. There may be none.
	Organizations []identity.Organization
	// Preselected is the id of the organization to begin with: the one that the application hinted at,
	// if it is among Organizations, or the only one there is; else "".
	Preselected string
}

// ask fills in who is asked, and for which organization.
func (c *Consent) ask(q *db.Q, userID, hintID string) error {
	all, err := identity.OrganizationsOf(q, userID)
	if err != nil {
		return err
	}
	c.Organizations = slices.DeleteFunc(all, func(o identity.Organization) bool { return o.Suspended })
	hinted := slices.ContainsFunc(c.Organizations, func(o identity.Organization) bool { return o.ID == hintID })
	switch {
	case hinted:
		c.Preselected = hintID
	case len(c.Organizations) == 1:
		c.Preselected = c.Organizations[0].ID
	}
	return nil
}

// ownerName finds out Consent.Owner.
func ownerName(q *db.Q, a Application, name *string) error {
	if a.OrganizationID == "" {
		return nil
	}
	return q.QueryRow(`SELECT name FROM organizations WHERE id = $1`, a.OrganizationID).Scan(name)
}

// ownerColumn is the column of Consent.Owner, of a table or join named o.
const ownerColumn = `COALESCE(o.name, '')`

// mayAuthorize returns an error unless a user may let applications act in an organization.
func mayAuthorize(q *db.Q, userID, organizationID string) error {
	orgs, err := identity.OrganizationsOf(q, userID)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(orgs, func(o identity.Organization) bool { return o.ID == organizationID })
	switch {
	case i < 0:
		return core.Errorf(core.Unprocessable, "Choose one of your organizations.")
	case orgs[i].Suspended:
		return errSuspended
	}
	return nil
}

// errSuspended says the same as the API does.
var errSuspended = &core.Error{Kind: core.Unavailable, Code: string(serverError), Message: "This organization is temporarily unavailable", RetryAfter: 60}
