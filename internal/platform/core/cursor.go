package core

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// A Cursor is a position in a list: the sort key of one item. It stays valid when the item is deleted.
type Cursor []string

// String returns the opaque form for clients: base64 with padding, in the URL-safe alphabet.
func (c Cursor) String() string {
	b, err := json.Marshal([]string(c))
	if err != nil {
		panic(err) // strings always marshal
	}
	return base64.URLEncoding.EncodeToString(b)
}

// ParseCursor parses a cursor of a list whose sort key has n parts. The padding is optional.
func ParseCursor(s string, n int) (Cursor, error) {
	invalid := Errorf(BadRequest, "The cursor is not valid; use one from a previous response, unchanged")
	encoding := base64.RawURLEncoding
	if strings.HasSuffix(s, "=") {
		encoding = base64.URLEncoding
	}
	b, err := encoding.DecodeString(s)
	if err != nil {
		return nil, invalid
	}
	var c Cursor
	if err := json.Unmarshal(b, &c); err != nil || len(c) != n {
		return nil, invalid
	}
	for _, part := range c {
		if strings.ContainsRune(part, 0) { // no database can store it
			return nil, invalid
		}
	}
	return c, nil
}
