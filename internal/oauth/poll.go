package oauth

import (
	"context"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/seal"
)

const (
	// slowDownBy is what each slow_down adds to the time that a device has to wait.
	slowDownBy = 5 * time.Second
	// pollGrace is how much earlier than it should a poll may arrive: one that left on time can be
	// faster on its way than the one before.
	pollGrace = time.Second
)

// redeemDevice answers a poll: with a token when the request was approved, once; else with the error
// that says how it stands.
func (s *Service) redeemDevice(ctx context.Context, a Application, deviceCode string, place credentialPlace) (tokenView, error) {
	var token tokenView
	var refusal error // of a poll that is noted all the same
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

// outcome returns nil when an application may have its token now, else the error that tells it how its
// request stands; errPending when nobody has decided. That there is an outcome is told however fast the
// device polls.
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

// poll returns how a request that waits for a decision stands after a poll, and what the device is told.
//
// Some clients do not know where a server wants the credentials, and answer every error by asking again
// at once with them in the other place. Such a repetition is not another poll: it is told the same.
func (d device) poll(now time.Time, place credentialPlace) (device, error) {
	early := !d.polledAt.IsZero() && now.Before(d.polledAt.Add(d.interval-pollGrace))
	switch {
	case early && d.polledBy != "" && d.polledBy != place:
		d.polledBy = "" // once
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
