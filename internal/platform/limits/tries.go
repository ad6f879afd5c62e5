package limits

import (
	"errors"
	"net/netip"
	"time"

	"stackyard/internal/platform/db"
)

// Tries are attempts that are limited within a period that starts with the first, for example to guess a
// password. They are counted in the database, for all processes together, in the transaction that they are part
// of: what is rolled back does not count.
type Tries struct {
	Key    string // action and caller
	Most   int
	Within time.Duration
}

// A Count is the number of tries, and when the period ends.
type Count struct {
	N    int
	Ends time.Time // zero without tries
}

// Add counts a try and returns the new count. Other writes wait with theirs until the end of this one.
func (t Tries) Add(q *db.Q, now time.Time) (count Count, err error) {
	err = q.QueryRow(`
		INSERT INTO tries (key, n, ends_at)
		VALUES ($1, 1, $3)
		ON CONFLICT (key) DO UPDATE SET
			n = CASE WHEN tries.ends_at <= $2 THEN 1 ELSE tries.n + 1 END,
			ends_at = CASE WHEN tries.ends_at <= $2 THEN $3 ELSE tries.ends_at END
		RETURNING n, ends_at`,
		t.Key, db.Micros(now), db.Micros(now.Add(t.Within))).Scan(&count.N, db.ToTime(&count.Ends))
	return count, err
}

// Count returns the number of tries.
func (t Tries) Count(q *db.Q, now time.Time) (count Count, err error) {
	err = q.QueryRow(`SELECT n, ends_at FROM tries WHERE key = $1 AND ends_at > $2`, t.Key, db.Micros(now)).Scan(&count.N, db.ToTime(&count.Ends))
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return count, err
}

// Undo removes one try.
func (t Tries) Undo(q *db.Q) error {
	_, err := q.Exec(`UPDATE tries SET n = n - 1 WHERE key = $1 AND n > 0`, t.Key)
	return err
}

// Touch writes the number of tries again, which takes as long as another small write.
func (t Tries) Touch(q *db.Q) error {
	_, err := q.Exec(`UPDATE tries SET n = n WHERE key = $1`, t.Key)
	return err
}

// Reset removes all tries.
func (t Tries) Reset(q *db.Q) error {
	_, err := q.Exec(`DELETE FROM tries WHERE key = $1`, t.Key)
	return err
}

// SweepTries removes tries whose period has ended.
func SweepTries(q *db.Q, now time.Time) error {
	_, err := q.Exec(`
		DELETE FROM tries WHERE key IN (
			SELECT key FROM tries WHERE ends_at <= $1`+q.SkipLocked()+`)`, db.Micros(now))
	return err
}

// WholeSeconds rounds up, for Retry-After.
func WholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// Network returns the network by which the tries of an address are counted: the owner of an IPv6 address has
// its whole /64.
func Network(address netip.Addr) string {
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	network, _ := address.Prefix(bits) // the zero prefix for the zero address
	return network.String()
}
