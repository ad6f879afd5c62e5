// Package core defines the basic types of all packages: ids, times, error kinds, cursors, slugs and branch
// filters. It does no I/O and imports none of our packages.
package core

import (
	"bytes"
	"encoding/base64"
	"strings"
	"time"

	"github.com/google/uuid"
)

// NewID returns a new id: a lower-case UUID, version 7, so that later ids sort later.
func NewID() string {
	return uuid.Must(uuid.NewV7()).String()
}

// ParseID returns the canonical form of a UUID with hyphens, in either case.
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

// Clock returns the time. Packages get one so that tests control the time.
type Clock func() time.Time

// SystemClock returns the real time, truncated to the microseconds that databases store.
func SystemClock() time.Time {
	return time.Now().UTC().Truncate(time.Microsecond)
}

// Time is a time in API responses: 2026-01-02T03:04:05.678Z; the zero value is null.
type Time struct{ time.Time }

// MarshalJSON writes the time in UTC with milliseconds, or null. Lists have thousands of times, so it uses the
// fast path of the standard library for RFC 3339, which has no milliseconds, and adds them.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	b := append(make([]byte, 0, len(`"2006-01-02T15:04:05.000Z"`)), '"')
	b = bytes.TrimSuffix(t.UTC().AppendFormat(b, time.RFC3339), []byte("Z"))
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(b, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z', '"'), nil
}

// timeLayouts are the accepted forms of ISO 8601: with or without separators, with or without seconds, and
// always with a zone. time.Parse accepts fractions of seconds in addition.
var timeLayouts = []string{
	"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04Z0700", "2006-01-02T15:04Z07",
	"20060102T150405Z0700", "20060102T150405Z07:00", "20060102T150405Z07",
}

// ParseTime parses a time in ISO 8601 with a zone.
func ParseTime(text string) (t time.Time, ok bool) {
	text = strings.ToUpper(text)
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// At returns t for API responses.
func At(t time.Time) Time { return Time{t} }
