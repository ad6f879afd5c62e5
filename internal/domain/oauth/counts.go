package oauth

import (
	"net/netip"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/limits"
)

// Limits within countWindow.
const (
	countWindow = 10 * time.Minute
	// userMisses and addressMisses are how many wrong user codes can be entered by one user, and from one
	// address, which an office may share.
	userMisses    = 10
	addressMisses = 50
	// addressRequests is how many device requests one address can make. It is far above normal use and keeps
	// one machine from filling the database.
	addressRequests = 20_000
)

// guesses returns the counters of a visitor's wrong codes, in lock order.
func (v Visitor) guesses() []limits.Tries {
	return []limits.Tries{
		{Key: "misses from " + limits.Network(v.Address), Most: addressMisses, Within: countWindow},
		{Key: "misses of " + v.UserID, Most: userMisses, Within: countWindow},
	}
}

// mayGuess returns a RateLimited error when a visitor has entered too many wrong codes. It locks the counters
// until the end of the write, so that concurrent guesses are counted too.
func mayGuess(q *db.Q, v Visitor, now time.Time) error {
	for _, tries := range v.guesses() {
		if err := q.LockName("oauth: " + tries.Key); err != nil {
			return err
		}
		count, err := tries.Count(q, now)
		if err != nil {
			return err
		}
		if count.N >= tries.Most {
			return &core.Error{
				Kind:       core.RateLimited,
				Message:    "Too many wrong codes were entered. Wait a few minutes, then start again on your device.",
				RetryAfter: limits.WholeSeconds(count.Ends.Sub(now)),
			}
		}
	}
	return nil
}

// noteMiss counts a wrong code.
func noteMiss(q *db.Q, v Visitor, now time.Time) error {
	for _, tries := range v.guesses() {
		if _, err := tries.Add(q, now); err != nil {
			return err
		}
	}
	return nil
}

// mayAsk counts a device request. It returns an Unavailable error when the address made too many, which rolls
// back the write, so that the request does not count.
func mayAsk(q *db.Q, address netip.Addr, now time.Time) error {
	requests := limits.Tries{Key: "requests from " + limits.Network(address), Most: addressRequests, Within: countWindow}
	count, err := requests.Add(q, now)
	if err != nil || count.N <= requests.Most {
		return err
	}
	return &core.Error{
		Kind:       core.Unavailable,
		Code:       string(serverError),
		Message:    "Too many devices have asked from this address. Try again later.",
		RetryAfter: limits.WholeSeconds(count.Ends.Sub(now)),
	}
}
