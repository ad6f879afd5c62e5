// Package core is the vocabulary every room shares: ids, times, error kinds, cursors, slugs and
// branch filters. It does no I/O and imports nothing of ours.
package core

import (
	"bytes"
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

// MarshalJSON writes the time in UTC with milliseconds, or null. Lists have thousands of times, so it goes
// the standard library's short way for RFC 3339, which knows no milliseconds, and adds them.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	b := append(make([]byte, 0, len(`"2006-01-02T15:04:05.000Z"`)), '"')
	b = bytes.TrimSuffix(t.UTC().AppendFormat(b, time.RFC3339), []byte("Z"))
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(b, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z', '"'), nil
}

// At returns t as the APIs write it.
func At(t time.Time) Time { return Time{t} }
