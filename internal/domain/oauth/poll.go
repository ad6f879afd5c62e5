package oauth

import (
	"context"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
)

const (
	// slowDownBy is added to the poll interval with each slow_down.
	slowDownBy = 5 * time.Second
	// pollGrace is how early a poll can arrive without being slowed down, because network latency varies.
	pollGrace = time.Second
)

// redeemDevice answers a poll: with a token when the request was approved, once; otherwise with the error that
// describes its state.
func (s *Service) redeemDevice(ctx context.Context, a Application, deviceCode string, place credentialPlace) (tokenView, error) {
	var token tokenView
	var refusal error // saved even though the poll is refused
	id := seal.HashToken(deviceCode)
	err := s.db.Write(ctx, func(q *db.Q) error {
		token, refusal = tokenView{}, nil
		d, err := lockDevice(q, id)
		if err != nil {
			return unknownDevice(err)
		}
		now := s.clock()
		switch err := d.outcome(a, now); {
		case err == errPending:
			d, refusal = d.poll(now, place)
			return d.notePoll(q)
		case err != nil:
			return err
		}
		if token, err = issue(q, a, d.grantID, now); err != nil {
			return err
		}
		return d.move(q, redeemed, d.grantID)
	})
	if err == nil {
		err = refusal
	}
	return token, err
}

func unknownDevice(err error) error {
	if core.KindOf(err) == core.NotFound {
		return errorf(invalidGrant, "No device code is like this one, or its authorization was revoked.")
	}
	return err
}

var errPending = errorf(authorizationPending, "The user has not decided yet.")

// outcome returns nil when the application can have its token now, otherwise the error that describes the
// request's state; errPending while it is undecided. A final outcome is returned no matter how fast the device
// polls.
func (d device) outcome(a Application, now time.Time) error {
	switch {
	case d.application.ID != a.ID:
		return unknownDevice(core.Errorf(core.NotFound, noDevice))
	case d.state == redeemed:
		return errorf(invalidGrant, "The device code has been used.")
	case d.state == denied:
		return errorf(accessDenied, "The user has denied access.")
	case d.expired(now):
		return errorf(expiredToken, "The device code has expired.")
	case d.state == pending:
		return errPending
	}
	return nil
}

// poll returns the state of a pending request after a poll, and the error for the device.
//
// Some clients do not know where a server expects credentials and repeat each failed request immediately with
// the credentials in the other place. Such a repetition gets the same answer and does not count as a poll.
func (d device) poll(now time.Time, place credentialPlace) (device, error) {
	early := !d.polledAt.IsZero() && now.Before(d.polledAt.Add(d.interval-pollGrace))
	switch {
	case early && d.polledBy != "" && d.polledBy != place:
		d.polledBy = "" // only once
	case early:
		d.interval += slowDownBy
		d.polledAt, d.polledBy, d.slowed = now, place, true
	default:
		d.polledAt, d.polledBy, d.slowed = now, place, false
	}
	if d.slowed {
		return d, errorf(slowDown, "Wait %d seconds between two polls.", d.interval/time.Second)
	}
	return d, errPending
}
