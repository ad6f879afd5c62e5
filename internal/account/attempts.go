package account

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/seal"
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
type attempt struct{ byAddress, byAccount, byBoth string }

func newAttempt(email string, from Origin) attempt {
	network := networkOf(from.Address).String()
	return attempt{
		byAddress: seal.HashToken("address " + network),
		byAccount: seal.HashToken("account " + email),
		byBoth:    seal.HashToken("both " + network + " " + email),
	}
}

// networkOf is what addresses are counted by. Whoever has one IPv6 address has its whole /64.
func networkOf(address netip.Addr) netip.Prefix {
	bits := 32
	if address.Is6() {
		bits = 64
	}
	network, _ := address.Prefix(bits) // of the zero address: the zero prefix
	return network
}

// begin counts an attempt before it is tried, so that many at the same time get no further than many
// in turn. One that is refused is not counted.
func (s *Service) begin(ctx context.Context, email string, from Origin) (attempt, error) {
	a := newAttempt(email, from)
	now := s.clock()
	err := s.db.Write(ctx, func(q *db.Q) error {
		if _, err := q.Exec(`DELETE FROM sign_in_attempts WHERE ends_at <= $1`, db.Micros(now)); err != nil {
			return err
		}
		for _, limit := range []struct {
			key  string
			most int
		}{{a.byAddress, mostOfAddress}, {a.byAccount, mostOfAccount}, {a.byBoth, mostOfAddressAndAccount}} {
			made, until, err := countAttempt(q, limit.key, now)
			if err != nil {
				return err
			}
			if made > limit.most {
				return tooMany(until.Sub(now))
			}
		}
		return nil
	})
	return a, err
}

// countAttempt returns how many there were, this one included, and when they are forgotten.
func countAttempt(q *db.Q, key string, now time.Time) (made int, until time.Time, err error) {
	err = q.QueryRow(`
		INSERT INTO sign_in_attempts (key, attempts, ends_at)
		VALUES ($1, 1, $2)
		ON CONFLICT (key) DO UPDATE SET attempts = sign_in_attempts.attempts + 1
		RETURNING attempts, ends_at`,
		key, db.Micros(now.Add(attemptsKept))).Scan(&made, db.ToTime(&until))
	return made, until, err
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
		RetryAfter: int((wait + time.Second - 1) / time.Second),
	}
}

// succeeded takes an attempt back: only failures count. Who knows the password may also have failed
// before at the same place.
func (s *Service) succeeded(ctx context.Context, a attempt) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		for _, key := range []string{a.byAddress, a.byAccount} {
			if _, err := q.Exec(`UPDATE sign_in_attempts SET attempts = attempts - 1 WHERE key = $1`, key); err != nil {
				return err
			}
		}
		_, err := q.Exec(`DELETE FROM sign_in_attempts WHERE key = $1`, a.byBoth)
		return err
	})
}
