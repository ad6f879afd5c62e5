package oauth

import (
	"errors"
	"net/netip"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
)

// What strangers may do within countWindow. It is counted in the database, so that replicas count
// together, from the first time on; after the window it begins anew.
const (
	countWindow = 10 * time.Minute
	// userMisses and addressMisses are how many wrong user codes may be entered by one user, and from one
	// address, which an office may share.
	userMisses    = 10
	addressMisses = 50
	// addressRequests is how many devices may ask from one address. It is far above what people do, and
	// keeps one machine from filling the database.
	addressRequests = 20_000
)

// network is what addresses are counted by: whoever has one IPv6 address has its whole /64.
func network(address netip.Addr) string {
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(address, bits).Masked().String()
}

// A limit is on something that is counted.
type limit struct {
	id   string
	most int
}

// guessLimits returns the limits on a visitor's wrong codes, in the order in which all lock them.
func (v Visitor) guessLimits() []limit {
	return []limit{{"misses from " + network(v.Address), addressMisses}, {"misses of " + v.UserID, userMisses}}
}

// mayGuess returns a RateLimited error when a visitor has entered too many wrong codes. Until the end of
// the write nobody else guesses as the same visitor, so that many guesses at once are counted too.
func mayGuess(q *db.Q, v Visitor, now time.Time) error {
	for _, l := range v.guessLimits() {
		if err := q.LockName("oauth: " + l.id); err != nil {
			return err
		}
		n, begun, err := counted(q, l.id)
		if err != nil {
			return err
		}
		if wait := begun.Add(countWindow).Sub(now); n >= l.most && wait > 0 {
			return &core.Error{
				Kind:       core.RateLimited,
				Message:    "Too many wrong codes were entered. Wait a few minutes, then start again on your device.",
				RetryAfter: wholeSeconds(wait),
			}
		}
	}
	return nil
}

// noteMiss counts a wrong code of a visitor.
func noteMiss(q *db.Q, v Visitor, now time.Time) error {
	for _, l := range v.guessLimits() {
		if _, _, err := count(q, l.id, now); err != nil {
			return err
		}
	}
	return nil
}

// mayAsk counts a request of a device, and returns an Unavailable error when there were too many from its
// address, with which the write ends and the request does not count.
func mayAsk(q *db.Q, address netip.Addr, now time.Time) error {
	n, begun, err := count(q, "requests from "+network(address), now)
	if err != nil || n <= addressRequests {
		return err
	}
	return &core.Error{
		Kind:       core.Unavailable,
		Code:       string(serverError),
		Message:    "Too many devices have asked from this address. Try again later.",
		RetryAfter: wholeSeconds(begun.Add(countWindow).Sub(now)),
	}
}

func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// counted returns how often something happened, and since when.
func counted(q *db.Q, id string) (n int, begun time.Time, err error) {
	err = q.QueryRow(`SELECT n, begun_at FROM oauth_counts WHERE id = $1`, id).Scan(&n, db.ToTime(&begun))
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return n, begun, err
}

// count counts that something happened, and returns how often it has, and since when.
func count(q *db.Q, id string, now time.Time) (n int, begun time.Time, err error) {
	err = q.QueryRow(`
		INSERT INTO oauth_counts (id, n, begun_at)
		VALUES ($1, 1, $2)
		ON CONFLICT (id) DO UPDATE SET
			n = CASE WHEN oauth_counts.begun_at <= $3 THEN 1 ELSE oauth_counts.n + 1 END,
			begun_at = CASE WHEN oauth_counts.begun_at <= $3 THEN $2 ELSE oauth_counts.begun_at END
		RETURNING n, begun_at`,
		id, db.Micros(now), db.Micros(now.Add(-countWindow))).Scan(&n, db.ToTime(&begun))
	return n, begun, err
}
