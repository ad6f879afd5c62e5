package oauth

import (
	"errors"
	"net/netip"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
)

// How many wrong user codes may be entered within guessWindow: by one user, and from one address, which
// an office may share. They are counted in the database, so that replicas count together.
const (
	guessWindow    = 10 * time.Minute
	userMisses     = 10
	addressMisses  = 50
	addressBitsIP6 = 64 // what one subscriber has
)

// A guesser is whose wrong codes are counted together.
type guesser struct {
	id   string
	most int
}

// guessers returns as whom a visitor guesses, in the order in which all lock them.
func (v Visitor) guessers() []guesser {
	from := netip.PrefixFrom(v.Address, v.Address.BitLen())
	if v.Address.Is6() {
		from = netip.PrefixFrom(v.Address, addressBitsIP6).Masked()
	}
	return []guesser{{"address " + from.String(), addressMisses}, {"user " + v.UserID, userMisses}}
}

// mayGuess returns a RateLimited error when a visitor has entered too many wrong codes. Until the end of
// the write nobody else guesses as the same visitor, so that many guesses at once are counted too.
func mayGuess(q *db.Q, v Visitor, now time.Time) error {
	for _, g := range v.guessers() {
		if err := q.LockName("oauth guesses: " + g.id); err != nil {
			return err
		}
		misses, begun, err := missesOf(q, g.id)
		if err != nil {
			return err
		}
		if wait := begun.Add(guessWindow).Sub(now); misses >= g.most && wait > 0 {
			return &core.Error{
				Kind:       core.RateLimited,
				Message:    "Too many wrong codes were entered. Wait a few minutes, then start again on your device.",
				RetryAfter: int(wait/time.Second) + 1,
			}
		}
	}
	return nil
}

func missesOf(q *db.Q, id string) (misses int, begun time.Time, err error) {
	err = q.QueryRow(`SELECT misses, begun_at FROM oauth_guesses WHERE id = $1`, id).Scan(&misses, db.ToTime(&begun))
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return misses, begun, err
}

// noteMiss counts a wrong code of a visitor.
func noteMiss(q *db.Q, v Visitor, now time.Time) error {
	for _, g := range v.guessers() {
		_, err := q.Exec(`
			INSERT INTO oauth_guesses (id, misses, begun_at)
			VALUES ($1, 1, $2)
			ON CONFLICT (id) DO UPDATE SET
				misses = CASE WHEN oauth_guesses.begun_at <= $3 THEN 1 ELSE oauth_guesses.misses + 1 END,
				begun_at = CASE WHEN oauth_guesses.begun_at <= $3 THEN $2 ELSE oauth_guesses.begun_at END`,
			g.id, db.Micros(now), db.Micros(now.Add(-guessWindow)))
		if err != nil {
			return err
		}
	}
	return nil
}
