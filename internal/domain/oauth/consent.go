package oauth

import (
	"net/netip"
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A Visitor is a signed-in user on a page.
type Visitor struct {
	UserID  string
	Address netip.Addr // client address
}

// A Consent is what the approval page shows.
type Consent struct {
	Application Application
	// Owner is the name of the organization that manages the application; empty for applications managed by the
	// operator. It is shown because any administrator can choose any name for an application.
	Owner  string
	Scopes identity.Scopes
	// Organizations lists the organizations the user can choose, by name. It can be empty.
	Organizations []identity.Organization
	// Preselected is the id of the initially selected organization: the one the application hinted at, if the
	// user is a member, or the user's only one; otherwise empty.
	Preselected string
}

// ask fills in the organizations of the user and the preselected one.
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

// ownerName reads Consent.Owner.
func ownerName(q *db.Q, a Application, name *string) error {
	if a.OrganizationID == "" {
		return nil
	}
	return q.QueryRow(`SELECT name FROM organizations WHERE id = $1`, a.OrganizationID).Scan(name)
}

// ownerColumn selects Consent.Owner from a table or join named o.
const ownerColumn = `COALESCE(o.name, '')`

// mayAuthorize returns an error unless the user can authorize applications in the organization.
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

// errSuspended has the same message as the API.
var errSuspended = &core.Error{Kind: core.Unavailable, Code: string(serverError), Message: "This organization is temporarily unavailable", RetryAfter: 60}
