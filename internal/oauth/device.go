package oauth

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/identity"
	"stackyard/internal/seal"
)

// deviceLife is how long a device waits for somebody to enter its user code.
const deviceLife = 600 * time.Second

// deviceCodePrefix begins the codes that devices poll with.
const deviceCodePrefix = "svcdc_"

// deviceState says how far a device's request has come.
type deviceState string

// The states.
const (
	pending  deviceState = "pending"  // nobody has decided
	approved deviceState = "approved" // there is a grant, and the device has not asked since
	denied   deviceState = "denied"
	redeemed deviceState = "redeemed" // the device has its token
)

// deviceMoves lists every move that a request can make.
var deviceMoves = map[deviceState][]deviceState{
	pending:  {approved, denied},
	approved: {redeemed},
}

// pollInterval is how long a device has to wait between two polls, at first.
const pollInterval = 5 * time.Second

// addDevice adds a request of an application, and returns the codes for the device and for the person.
func (s *Service) addDevice(ctx context.Context, d device) (deviceCode, userCode string, err error) {
	deviceCode = seal.NewToken(deviceCodePrefix)
	d.id, d.state, d.interval = seal.HashToken(deviceCode), pending, pollInterval
	d.createdAt = s.clock()
	d.expiresAt = d.createdAt.Add(deviceLife)
	err = s.db.Write(ctx, func(q *db.Q) error {
		if err := mayAsk(q, d.address, d.createdAt); err != nil {
			return err
		}
		for range 10 { // a code that waits already is as rare as winning a lottery
			userCode = newUserCode()
			if added, err := insertDevice(q, d, s.userCodes.hash(userCode)); added || err != nil {
				return err
			}
		}
		return errors.New("found no user code that is free")
	})
	return deviceCode, userCode, err
}

// A DeviceRequest is a device that waits for a person to let it act for them, as the page shows it.
type DeviceRequest struct {
	Consent
	UserCode string // as it is shown: XXXX-XXXX
	// Address and UserAgent tell where the device asked from, so that the person can see whether it is
	// theirs. The user agent is whatever the device says, at most a line long, or "".
	Address   string
	UserAgent string
	CreatedAt time.Time
	ExpiresAt time.Time
}

// DeviceRequest returns the request with a user code, in whatever way the visitor entered it, for them to
// approve or deny. Every error is a core.Error whose message can be shown:
//
//   - Unprocessable: no code looks like that;
//   - NotFound: no device waits with that code;
//   - Gone: it has expired, or its application has been disabled;
//   - Conflict: it was approved or denied before;
//   - RateLimited, with RetryAfter: too many wrong codes were entered by this user or from this address.
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

// ApproveDevice lets the device with a user code act for the visitor in an organization. Its errors are
// those of DeviceRequest, Unprocessable when the organization is not one of the visitor's, and
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

// DenyDevice tells the device with a user code that it may not. Its errors are those of DeviceRequest.
func (s *Service) DenyDevice(ctx context.Context, v Visitor, userCode string) error {
	return s.withDevice(ctx, v, userCode, func(q *db.Q, d device) error {
		return d.move(q, denied, "")
	})
}

// withDevice runs fn on the request with a user code, if it waits for a decision, in one write and
// under its lock. A code that nobody has is counted against the visitor.
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

// A device is a request as the database has it.
type device struct {
	id          string // hash of the device code
	userCode    string // only where somebody has just entered it
	application Application
	owner       string // see Consent
	hintID      string // the organization to begin with
	scopes      identity.Scopes
	address     netip.Addr
	userAgent   string
	state       deviceState
	grantID     string        // of an approved one
	interval    time.Duration // how long the device has to wait between two polls
	polledAt    time.Time     // zero: never
	polledBy    credentialPlace
	slowed      bool // the last poll was told to slow down
	createdAt   time.Time
	expiresAt   time.Time
}

// expired reports whether it is too late for the request.
func (d device) expired(now time.Time) bool { return !now.Before(d.expiresAt) }

// waits returns an error, for the person who entered the user code, unless the request waits for a
// decision.
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
