package oauth

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// deviceLife is how long a device request is valid.
const deviceLife = 600 * time.Second

// deviceCodePrefix starts the codes that devices poll with.
const deviceCodePrefix = "svcdc_"

// deviceState is the state of a device request.
type deviceState string

// States of a device request.
const (
	pending  deviceState = "pending"  // waiting for a decision
	approved deviceState = "approved" // granted, token not fetched yet
	denied   deviceState = "denied"
	redeemed deviceState = "redeemed" // token fetched
)

// deviceMoves lists the allowed transitions.
var deviceMoves = map[deviceState][]deviceState{
	pending:  {approved, denied},
	approved: {redeemed},
}

// pollInterval is the initial minimum time between two polls.
const pollInterval = 5 * time.Second

// addDevice adds a device request and returns its device code and user code.
func (s *Service) addDevice(ctx context.Context, d device) (deviceCode, userCode string, err error) {
	deviceCode = seal.NewToken(deviceCodePrefix)
	d.id, d.state, d.interval = seal.HashToken(deviceCode), pending, pollInterval
	d.createdAt = s.clock()
	d.expiresAt = d.createdAt.Add(deviceLife)
	err = s.db.Write(ctx, func(q *db.Q) error {
		if err := mayAsk(q, d.address, d.createdAt); err != nil {
			return err
		}
		for range 10 { // collisions with a pending code are extremely rare
			userCode = newUserCode()
			if added, err := insertDevice(q, d, s.userCodes.hash(userCode)); added || err != nil {
				return err
			}
		}
		return errors.New("found no user code that is free")
	})
	return deviceCode, userCode, err
}

// A DeviceRequest is a device request as the approval page shows it.
type DeviceRequest struct {
	Consent
	UserCode string // formatted as XXXX-XXXX
	// Address and UserAgent are where the request came from, so that the user can recognize the device. The
	// user agent is whatever the device sent, one line, or empty.
	Address   string
	UserAgent string
	CreatedAt time.Time
	ExpiresAt time.Time
}

// DeviceRequest returns the pending request with a user code, entered in any format, for the visitor to approve
// or deny. Every error is a core.Error with a message for the page:
//
//   - Unprocessable: malformed code
//   - NotFound: no request with that code
//   - Gone: the request has expired, or its application is disabled
//   - Conflict: already approved or denied
//   - RateLimited, with RetryAfter: too many wrong codes from this user or address
func (s *Service) DeviceRequest(ctx context.Context, v Visitor, userCode string) (DeviceRequest, error) {
	var shown DeviceRequest
	err := s.withDevice(ctx, v, userCode, func(q *db.Q, d device) error {
		shown = DeviceRequest{
			Consent:   Consent{Application: d.application, Owner: d.owner, Scopes: d.scopes},
			UserCode:  d.userCode,
			Address:   d.address.String(),
			UserAgent: d.userAgent,
			CreatedAt: d.createdAt,
			ExpiresAt: d.expiresAt,
		}
		return shown.ask(q, v.UserID, d.hintID)
	})
	return shown, err
}

// ApproveDevice grants the device with a user code access to an organization on behalf of the visitor. Errors
// are those of DeviceRequest, Unprocessable when the visitor is not a member of the organization, and
// Unavailable when it is suspended.
func (s *Service) ApproveDevice(ctx context.Context, v Visitor, userCode, organizationID string) error {
	return s.withDevice(ctx, v, userCode, func(q *db.Q, d device) error {
		if err := mayAuthorize(q, v.UserID, organizationID); err != nil {
			return err
		}
		g := grant{
			id:             core.NewID(),
			applicationID:  d.application.ID,
			userID:         v.UserID,
			organizationID: organizationID,
			scopes:         d.scopes,
			createdAt:      s.clock(),
		}
		if err := insertGrant(q, g); err != nil {
			return err
		}
		return d.move(q, approved, g.id)
	})
}

// DenyDevice denies the request with a user code. Errors are those of DeviceRequest.
func (s *Service) DenyDevice(ctx context.Context, v Visitor, userCode string) error {
	return s.withDevice(ctx, v, userCode, func(q *db.Q, d device) error {
		return d.move(q, denied, "")
	})
}

// withDevice runs fn on the pending request with a user code, in one write and holding its row lock. An unknown
// code counts as a failed attempt of the visitor.
func (s *Service) withDevice(ctx context.Context, v Visitor, entered string, fn func(*db.Q, device) error) error {
	code, ok := ParseUserCode(entered)
	if !ok {
		return core.Errorf(core.Unprocessable, "That is not a code: one has eight letters, such as %s.", "BCDF-GHJK")
	}
	var unknown bool
	err := s.db.Write(ctx, func(q *db.Q) error {
		now := s.clock()
		if err := mayGuess(q, v, now); err != nil {
			return err
		}
		d, err := lockDeviceByUserCode(q, s.userCodes.hash(code))
		if unknown = core.KindOf(err) == core.NotFound; unknown {
			return noteMiss(q, v, now)
		}
		if err != nil {
			return err
		}
		if err := d.waits(now); err != nil {
			return err
		}
		d.userCode = code
		return fn(q, d)
	})
	if err == nil && unknown {
		return core.Errorf(core.NotFound, "No device is waiting with the code %s. Check the code on your device.", code)
	}
	return err
}

// A device is a device request as stored.
type device struct {
	id          string // hash of the device code
	userCode    string // set only right after the user entered it
	application Application
	owner       string // see Consent
	hintID      string // preselected organization
	scopes      identity.Scopes
	address     netip.Addr
	userAgent   string
	state       deviceState
	grantID     string        // set once approved
	interval    time.Duration // minimum time between two polls
	polledAt    time.Time     // zero: never
	polledBy    credentialPlace
	slowed      bool // the last poll was answered with slow_down
	createdAt   time.Time
	expiresAt   time.Time
}

// expired reports whether the request has expired.
func (d device) expired(now time.Time) bool { return !now.Before(d.expiresAt) }

// waits returns an error for the person who entered the user code, unless the request is pending.
func (d device) waits(now time.Time) error {
	switch {
	case d.state == denied:
		return core.Errorf(core.Conflict, "This code was denied before. Start again on your device to get a new one.")
	case d.state != pending:
		return core.Errorf(core.Conflict, "This code was approved before. Start again on your device to get a new one.")
	case d.expired(now):
		return core.Errorf(core.Gone, "This code has expired. Start again on your device to get a new one.")
	case !d.application.Enabled:
		return core.Errorf(core.Gone, "%s has been disabled by an administrator.", d.application.Name)
	}
	return nil
}
