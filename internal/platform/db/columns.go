package db

import (
	"bytes"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Micros returns t as stored in a column: microseconds since 1970 UTC, NULL for the zero time.
func Micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// ToTime scans a column written with [Micros].
func ToTime(dst *time.Time) sql.Scanner { return timeColumn{dst} }

type timeColumn struct{ dst *time.Time }

func (c timeColumn) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*c.dst = time.Time{}
	case int64:
		*c.dst = time.UnixMicro(v).UTC()
	default:
		return fmt.Errorf("a time is stored as whole microseconds, not as %T", src)
	}
	return nil
}

// OrNull returns v as stored in a column where NULL is the zero value. A pointer needs no conversion:
// nil is stored as NULL.
func OrNull[T comparable](v T) any {
	if v == *new(T) {
		return nil
	}
	return v
}

// Text is [OrNull] for text.
func Text(s string) any { return OrNull(s) }

// ToText scans text; NULL becomes "".
func ToText(dst *string) sql.Scanner { return textColumn{dst} }

type textColumn struct{ dst *string }

func (c textColumn) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*c.dst = ""
	case string:
		*c.dst = v
	case []byte:
		*c.dst = string(v)
	default:
		return fmt.Errorf("expected text in the column, not %T", src)
	}
	return nil
}

// JSON returns v as stored in a column: JSON text; NULL for nil and for a nil pointer, map or slice.
func JSON(v any) any {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Invalid:
		return nil
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		if r.IsNil() {
			return nil
		}
	}
	return jsonValue{v}
}

// jsonValue encodes its value when the statement runs, so that an encoding error is that statement's error.
type jsonValue struct{ v any }

var _ driver.Valuer = jsonValue{}

func (j jsonValue) Value() (driver.Value, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(j.v); err != nil {
		return nil, err
	}
	return string(bytes.TrimSuffix(text.Bytes(), []byte("\n"))), nil
}

// ToJSON scans JSON text into the value that dst points to; NULL leaves the value unchanged.
func ToJSON(dst any) sql.Scanner { return jsonColumn{dst} }

type jsonColumn struct{ dst any }

func (c jsonColumn) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(v), c.dst)
	case []byte:
		return json.Unmarshal(v, c.dst)
	default:
		return fmt.Errorf("expected JSON text in the column, not %T", src)
	}
}
