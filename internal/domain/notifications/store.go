package notifications

import (
	"fmt"
	"strconv"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

const noReceiver = "No notification service found"

const selectReceiver = `
	SELECT s.id, s.organization_id, s.provider, s.description, s.scope, s.scope_uuids, s.branch_configuration,
		s.build_states, s.settings, s.connected, s.disabled, s.broken_at, s.broken_reason, s.created_at, ` + identity.UserColumns + `
	FROM notification_services s
	LEFT JOIN users u ON u.id = s.created_by`

func scanReceiver(scan db.Scan) (*Receiver, error) {
	var r Receiver
	var by identity.User
	var provider string
	err := scan(append([]any{
		&r.ID, &r.OrganizationID, &provider, &r.Description, &r.Scope, db.ToJSON(&r.ScopeIDs), &r.Branches,
		db.ToJSON(&r.States), &r.sealed, &r.Connected, &r.Disabled, db.ToTime(&r.BrokenAt), db.ToText(&r.BrokenReason), db.ToTime(&r.CreatedAt),
	}, identity.UserDest(&by)...)...)
	if err != nil {
		return nil, err
	}
	r.CreatedBy = by.OrNil()
	if r.Provider = ProviderByID(provider); r.Provider == nil {
		return nil, fmt.Errorf("notification service %s has the provider %q, which this program does not know", r.ID, provider)
	}
	return &r, nil
}

// byID returns a receiver of an organization, or a NotFound error.
func byID(q *db.Q, organizationID, id string) (*Receiver, error) {
	return db.Find(q, noReceiver, scanReceiver, selectReceiver+` WHERE s.organization_id = $1 AND s.id = $2`, organizationID, id)
}

// lock locks and returns a receiver of an organization, or returns a NotFound error.
func lock(q *db.Q, organizationID, id string) (*Receiver, error) {
	if err := q.Lock("notification_services", id); err != nil {
		return nil, err
	}
	return byID(q, organizationID, id)
}

// list returns a page of an organization's receivers, oldest first.
func list(q *db.Q, organizationID string, page route.CursorPage) ([]*Receiver, error) {
	var s db.Statement
	s.Where("s.organization_id = %s", organizationID)
	order := "s.created_at, s.id"
	var err error
	switch {
	case page.After != nil:
		err = wherePast(&s, ">", page.After)
	case page.Before != nil:
		err = wherePast(&s, "<", page.Before)
		order = "s.created_at DESC, s.id DESC"
	}
	if err != nil {
		return nil, err
	}
	return db.All(q, scanReceiver, selectReceiver+`
		`+s.Clause()+`
		ORDER BY `+order+`
		LIMIT `+s.Arg(page.Limit()), s.Args()...)
}

// listPage returns a page of an organization's receivers by its number, oldest first.
func listPage(q *db.Q, organizationID string, limit, offset int) ([]*Receiver, error) {
	return db.All(q, scanReceiver, selectReceiver+`
		WHERE s.organization_id = $1
		ORDER BY s.created_at, s.id
		LIMIT $2 OFFSET $3`, organizationID, limit, offset)
}

// cursorOf returns the sort key of a receiver.
func cursorOf(r *Receiver) core.Cursor {
	return core.Cursor{strconv.FormatInt(r.CreatedAt.UnixMicro(), 10), r.ID}
}

// wherePast adds the condition that a receiver is on one side of a cursor.
func wherePast(s *db.Statement, side string, c core.Cursor) error {
	at, err := strconv.ParseInt(c[0], 10, 64)
	if err != nil {
		return core.Errorf(core.BadRequest, "The cursor is not valid; use one from a previous response, unchanged")
	}
	s.Where("(s.created_at, s.id) "+side+" (%s, %s)", at, c[1])
	return nil
}

// Enabled returns the enabled receivers of an organization, oldest first.
func Enabled(q *db.Q, organizationID string) ([]*Receiver, error) {
	return db.All(q, scanReceiver, selectReceiver+`
		WHERE s.organization_id = $1 AND NOT s.disabled AND s.broken_at IS NULL
		ORDER BY s.created_at, s.id`, organizationID)
}

// connectedThrough returns the connected receivers of a provider.
func connectedThrough(q *db.Q, organizationID string, p *Provider) ([]*Receiver, error) {
	return db.All(q, scanReceiver, selectReceiver+`
		WHERE s.organization_id = $1 AND s.provider = $2 AND s.connected
		ORDER BY s.created_at, s.id`, organizationID, p.ID)
}

func count(q *db.Q, organizationID string) (n int, err error) {
	err = q.QueryRow(`SELECT COUNT(*) FROM notification_services WHERE organization_id = $1`, organizationID).Scan(&n)
	return n, err
}

// save inserts a new receiver or updates a locked one. The settings from before and after are for the audit trail; nil if
// they are the same.
func save(q *db.Q, r *Receiver, before, after Settings) error {
	return receiverRows.ChangeAlso(q, r.ID, before.audited(), after.audited(), func() error { return write(q, r) })
}

func write(q *db.Q, r *Receiver) error {
	q.Announce(Topic(r.OrganizationID))
	var by any
	if r.CreatedBy != nil {
		by = r.CreatedBy.ID
	}
	_, err := q.Exec(`
		INSERT INTO notification_services (id, organization_id, provider, description, scope, scope_uuids, branch_configuration,
			build_states, settings, connected, disabled, broken_at, broken_reason, created_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`+db.OrUpdate("id", `
			description, scope, scope_uuids, branch_configuration, build_states, settings, disabled, broken_at,
			broken_reason`),
		r.ID, r.OrganizationID, r.Provider.ID, r.Description, r.Scope, db.JSON(r.ScopeIDs), string(r.Branches),
		db.JSON(r.States), r.sealed, r.Connected, r.Disabled, db.Micros(r.BrokenAt), db.Text(r.BrokenReason), by, db.Micros(r.CreatedAt))
	return err
}

func remove(q *db.Q, r *Receiver) error {
	q.Announce(Topic(r.OrganizationID))
	_, err := receiverRows.Exec(q, r.ID, `DELETE FROM notification_services WHERE organization_id = $1 AND id = $2`, r.OrganizationID, r.ID)
	return err
}
