// Package core is the vocabulary every room shares: ids, times, error kinds, cursors, slugs and
// branch filters. It does no I/O and imports nothing of ours.
package core

import (
	"encoding/base64"
	"time"

	"github.com/google/uuid"
)

// NewID returns a new id: a lower-case UUID, version 7, so that ids made later sort later.
func NewID() string {
	return uuid.Must(uuid.NewV7()).String()
}

// ParseID returns the canonical form of a UUID in its hyphenated form, in either case.
func ParseID(s string) (id string, ok bool) {
	if len(s) != 36 {
		return "", false
	}
	u, err := uuid.Parse(s)
	if err != nil {
		return "", false
	}
	return u.String(), true
}

// GraphQLID returns the opaque id that existing clients decode: base64 of "Type---uuid".
func GraphQLID(kind, id string) string {
	return base64.StdEncoding.EncodeToString([]byte(kind + "---" + id))
}

// Clock tells the time. Rooms are given one so that tests own the time.
type Clock func() time.Time

// SystemClock is the real time, cut to the microseconds that storage keeps.
func SystemClock() time.Time {
	return time.Now().UTC().Truncate(time.Microsecond)
}

// Time is a time as every API writes it: 2026-01-02T03:04:05.678Z; the zero value is null.
type Time struct{ time.Time }

const timeLayout = `"2006-01-02T15:04:05.000Z"`

// MarshalJSON writes the time in UTC with milliseconds, or null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.UTC().AppendFormat(nil, timeLayout), nil
}

// At returns t as the APIs write it.
func At(t time.Time) Time { return Time{t} }
