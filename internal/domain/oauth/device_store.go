package oauth

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"stackyard/internal/platform/db"
)

const deviceColumns = `d.id, d.organization_id, d.scopes, d.address, d.user_agent, d.state, d.grant_id, d.poll_interval, d.polled_at, d.polled_by, d.slowed,
	d.created_at, d.expires_at, ` + ownerColumn + `, ` + applicationColumns

func scanDevice(scan db.Scan) (device, error) {
	var d device
	var seconds int64
	var address string
	err := scan(append([]any{&d.id, db.ToText(&d.hintID), db.ToJSON(&d.scopes), &address, &d.userAgent, &d.state, db.ToText(&d.grantID), &seconds, db.ToTime(&d.polledAt), db.ToText((*string)(&d.polledBy)), &d.slowed,
		db.ToTime(&d.createdAt), db.ToTime(&d.expiresAt), &d.owner}, applicationDest(&d.application)...)...)
	d.interval = time.Duration(seconds) * time.Second
	d.address, _ = netip.ParseAddr(address) // invalid or empty: the zero address
	return d, err
}

const selectDevice = `
	SELECT ` + deviceColumns + `
	FROM oauth_device_requests d
	JOIN oauth_applications a ON a.id = d.application_id
	LEFT JOIN organizations o ON o.id = a.organization_id`

// Statements for polls and for users who enter a code. Pending requests can be many, so each statement uses an
// index.
const (
	deviceByID       = selectDevice + ` WHERE d.id = $1`
	deviceByUserCode = `SELECT id FROM oauth_device_requests WHERE user_code_hash = $1`
	updatePoll       = `
		UPDATE oauth_device_requests SET poll_interval = $2, polled_at = $3, polled_by = $4, slowed = $5
		WHERE id = $1`
)

const noDevice = "No device request found"

// lockDeviceByUserCode locks and returns the request with a user code hash, or a NotFound error.
func lockDeviceByUserCode(q *db.Q, hash string) (device, error) {
	var id string
	if err := q.QueryRow(deviceByUserCode, hash).Scan(&id); err != nil {
		return device{}, db.OrNotFound(err, noDevice)
	}
	return lockDevice(q, id)
}

// lockDevice locks and returns the request with a device code hash, or a NotFound error.
func lockDevice(q *db.Q, id string) (device, error) {
	if err := q.Lock("oauth_device_requests", id); err != nil {
		return device{}, err
	}
	return db.Find(q, noDevice, scanDevice, deviceByID, id)
}

// insertDevice adds a request, unless its user code is in use.
func insertDevice(q *db.Q, d device, userCodeHash string) (added bool, err error) {
	n, err := q.Exec(`
		INSERT INTO oauth_device_requests (id, user_code_hash, application_id, organization_id, scopes, address, user_agent, state,
			poll_interval, slowed, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, FALSE, $10, $11)
		ON CONFLICT (user_code_hash) DO NOTHING`,
		d.id, userCodeHash, d.application.ID, db.Text(d.hintID), db.JSON(d.scopes), d.address.String(), d.userAgent, d.state,
		int64(d.interval/time.Second), db.Micros(d.createdAt), db.Micros(d.expiresAt))
	return n == 1, err
}

// notePoll saves the poll state of a locked request.
func (d device) notePoll(q *db.Q) error {
	_, err := q.Exec(updatePoll, d.id, int64(d.interval/time.Second), db.Micros(d.polledAt), db.Text(string(d.polledBy)), d.slowed)
	return err
}

// move changes the state of a locked request. An approved one has a grant.
func (d device) move(q *db.Q, to deviceState, grantID string) error {
	if !slices.Contains(deviceMoves[d.state], to) {
		return fmt.Errorf("a device request cannot go from %s to %s", d.state, to)
	}
	_, err := q.Exec(`UPDATE oauth_device_requests SET state = $2, grant_id = $3 WHERE id = $1`, d.id, to, db.Text(grantID))
	return err
}
