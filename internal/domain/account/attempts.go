package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/limits"
	"stackyard/internal/platform/seal"
)

// attemptsKept is how long failures to sign in are counted, from the first of them.
const attemptsKept = 15 * time.Minute

// The most failures within attemptsKept. Those of one address with one account are what a person who
// forgot their password has. One address may be a whole office. One account from everywhere has a limit
// too, high enough that a stranger needs many addresses to lock its owner out for a quarter of an hour.
const (
	mostOfAddressAndAccount = 10
	mostOfAddress           = 50
	mostOfAccount           = 100
)

// An attempt to sign in, by what it is counted under.
type attempt struct{ byAddress, byAccount, byBoth limits.Tries }

func newAttempt(email string, from Origin) attempt {
	network := limits.Network(from.Address)
	// People mistype passwords into the field for the email.
	hashed := func(what string, most int) limits.Tries {
		return limits.Tries{Key: seal.HashToken(what), Most: most, Within: attemptsKept}
	}
	return attempt{
		byAddress: hashed("address "+network, mostOfAddress),
		byAccount: hashed("account "+email, mostOfAccount),
		byBoth:    hashed("both "+network+" "+email, mostOfAddressAndAccount),
	}
}

// begin counts an attempt before it is tried, so that many at the same time get no further than many
// in turn. One that is refused is not counted.
func (s *Service) begin(ctx context.Context, email string, from Origin) (attempt, error) {
	a := newAttempt(email, from)
	now := s.clock()
	err := s.db.Write(ctx, func(q *db.Q) error {
		if err := limits.SweepTries(q, now); err != nil {
			return err
		}
		for _, tries := range []limits.Tries{a.byAddress, a.byAccount, a.byBoth} {
			tally, err := tries.Add(q, now)
			if err != nil {
				return err
			}
			if tally.N > tries.Most {
				return tooMany(tally.Ends.Sub(now))
			}
		}
		return nil
	})
	return a, err
}

func tooMany(wait time.Duration) error {
	minutes := int((wait + time.Minute - 1) / time.Minute)
	unit := "minutes"
	if minutes == 1 {
		unit = "minute"
	}
	return &core.Error{
		Kind:       core.RateLimited,
		Message:    fmt.Sprintf("Too many attempts. Try again in %d %s.", minutes, unit),
		RetryAfter: limits.WholeSeconds(wait),
	}
}

// succeeded takes an attempt back: only failures count. Who knows the password may also have failed
// before at the same place.
func (s *Service) succeeded(ctx context.Context, a attempt) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		return errors.Join(a.byAddress.TakeBack(q), a.byAccount.TakeBack(q), a.byBoth.Forget(q))
	})
}
