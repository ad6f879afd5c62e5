package limits

import (
	"errors"
	"net/netip"
	"time"

	"stackyard/internal/platform/db"
)

// Tries are what somebody may do only so often within a time that begins with the first: guess a password,
// say. They are counted in the database, for all processes together, by the transaction that they are part
// of: what is rolled back does not count.
type Tries struct {
	Key    string // what, and by whom
	Most   int
	Within time.Duration
}

// A Tally is how often something was tried, and when that is forgotten.
type Tally struct {
	N    int
	Ends time.Time // zero: nothing is to be forgotten
}

// Add counts a try, and returns how many there are with it. Until the end of the write nobody else counts
// one.
func (t Tries) Add(q *db.Q, now time.Time) (tally Tally, err error) {
	err = q.QueryRow(`
		INSERT INTO tries (key, n, ends_at)
		VALUES ($1, 1, $3)
		ON CONFLICT (key) DO UPDATE SET
			n = CASE WHEN tries.ends_at <= $2 THEN 1 ELSE tries.n + 1 END,
			ends_at = CASE WHEN tries.ends_at <= $2 THEN $3 ELSE tries.ends_at END
		RETURNING n, ends_at`,
		t.Key, db.Micros(now), db.Micros(now.Add(t.Within))).Scan(&tally.N, db.ToTime(&tally.Ends))
	return tally, err
}

// Tally returns how many tries there are.
func (t Tries) Tally(q *db.Q, now time.Time) (tally Tally, err error) {
	err = q.QueryRow(`SELECT n, ends_at FROM tries WHERE key = $1 AND ends_at > $2`, t.Key, db.Micros(now)).Scan(&tally.N, db.ToTime(&tally.Ends))
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return tally, err
}

// TakeBack has one try not count.
func (t Tries) TakeBack(q *db.Q) error {
	_, err := q.Exec(`UPDATE tries SET n = n - 1 WHERE key = $1 AND n > 0`, t.Key)
	return err
}

// Forget has no try count.
func (t Tries) Forget(q *db.Q) error {
	_, err := q.Exec(`DELETE FROM tries WHERE key = $1`, t.Key)
	return err
}

// SweepTries removes those that are to be forgotten.
func SweepTries(q *db.Q, now time.Time) error {
	_, err := q.Exec(`
		DELETE FROM tries WHERE key IN (
			SELECT key FROM tries WHERE ends_at <= $1`+q.SkipLocked()+`)`, db.Micros(now))
	return err
}

// WholeSeconds rounds up, for Retry-After.
func WholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// Network is what the tries of an address are counted by: whoever has one IPv6 address has its whole /64.
func Network(address netip.Addr) string {
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	network, _ := address.Prefix(bits) // of the zero address: the zero prefix
	return network.String()
}
