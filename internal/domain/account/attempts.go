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

// attemptWindow is how long failed sign-ins are counted, from the first of them.
const attemptWindow = 15 * time.Minute

// Limits on failures within attemptWindow. The limit per address and account is for a person who forgot a
// password. One address can be a whole office. The limit per account is so high that an attacker needs many
// addresses to lock the owner out for a quarter of an hour.
const (
	maxPerAddressAndAccount = 10
	maxPerAddress           = 50
	maxPerAccount           = 100
)

// An attempt is a sign-in with the counters that apply to it.
type attempt struct{ byAddress, byAccount, byBoth limits.Tries }

func newAttempt(email string, from Origin) attempt {
	network := limits.Network(from.Address)
	// Keys are hashed because people mistype passwords into the email field.
	counter := func(key string, limit int) limits.Tries {
		return limits.Tries{Key: seal.HashToken(key), Most: limit, Within: attemptWindow}
	}
	return attempt{
		byAddress: counter("address "+network, maxPerAddress),
		byAccount: counter("account "+email, maxPerAccount),
		byBoth:    counter("both "+network+" "+email, maxPerAddressAndAccount),
	}
}

// beginAttempt counts an attempt before the password is checked, so that concurrent attempts do not pass the
// limit. A refused attempt is not counted.
func (s *Service) beginAttempt(ctx context.Context, email string, from Origin) (attempt, error) {
	a := newAttempt(email, from)
	now := s.clock()
	err := s.db.Write(ctx, func(q *db.Q) error {
		if err := limits.SweepTries(q, now); err != nil {
			return err
		}
		for _, tries := range []limits.Tries{a.byAddress, a.byAccount, a.byBoth} {
			counted, err := tries.Add(q, now)
			if err != nil {
				return err
			}
			if counted.N > tries.Most {
				return rateLimited(counted.Ends.Sub(now))
			}
		}
		return nil
	})
	return a, err
}

func rateLimited(wait time.Duration) error {
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

// attemptSucceeded uncounts an attempt: only failures count. It also forgets earlier failures of the same
// account at the same address.
func (s *Service) attemptSucceeded(ctx context.Context, a attempt) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		return errors.Join(a.byAddress.Undo(q), a.byAccount.Undo(q), a.byBoth.Reset(q))
	})
}
