package db_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// roundTrip writes a value into a column of a type and scans it back.
func roundTrip(t *testing.T, d *db.DB, kind string, value, dst any) {
	t.Helper()
	table := "boxes_of_" + kind
	if d.Engine() == db.PostgreSQL && kind == "BLOB" {
		kind = "BYTEA" // as in a migration
	}
	err := d.Write(t.Context(), func(q *db.Q) error {
		for _, statement := range []string{
			`CREATE TABLE IF NOT EXISTS ` + table + ` (content ` + kind + `)`,
			`DELETE FROM ` + table,
		} {
			if _, err := q.Exec(statement); err != nil {
				return err
			}
		}
		if _, err := q.Exec(`INSERT INTO `+table+` (content) VALUES ($1)`, value); err != nil {
			return err
		}
		return q.QueryRow(`SELECT content FROM ` + table).Scan(dst)
	})
	if err != nil {
		t.Errorf("%s %v: %v", kind, value, err)
	}
}

func TestMicros_KeepsAMomentToTheMicrosecond(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, want := range []time.Time{
			{},
			time.UnixMicro(0).UTC(),
			time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC),
			time.Date(1931, 1, 2, 3, 4, 5, 6_000, time.UTC),
		} {
			got := time.Now()
			roundTrip(t, d, "BIGINT", db.Micros(want), db.ToTime(&got))
			if got != want {
				t.Errorf("%v came back as %v", want, got)
			}
		}
	})
}

func TestMicros_IsNullForTheZeroTime(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var n sql.NullInt64
		roundTrip(t, d, "BIGINT", db.Micros(time.Time{}), &n)
		if n.Valid {
			t.Errorf("stored as %d", n.Int64)
		}
	})
}

func TestText_KeepsEveryText(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, want := range []string{"", "x", "it's $1 ? \"ü\"\n🙂", strings.Repeat("long ", 10_000)} {
			got := "before"
			roundTrip(t, d, "TEXT", db.Text(want), db.ToText(&got))
			if got != want {
				t.Errorf("%q came back as %q", want, got)
			}
		}
	})
}

func TestJSON_KeepsAValue(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		want := map[string]string{"a": "<b> & \"c\"", "ü": "\x00"}
		var got map[string]string
		roundTrip(t, d, "TEXT", db.JSON(want), db.ToJSON(&got))
		if !maps.Equal(got, want) {
			t.Errorf("%v came back as %v", want, got)
		}
		var text string
		roundTrip(t, d, "TEXT", db.JSON([]string{"<a>", "b"}), &text)
		if text != `["<a>","b"]` {
			t.Errorf("stored as %s", text)
		}
		roundTrip(t, d, "TEXT", db.JSON(json.RawMessage(`{"b":1,"a":2}`)), &text)
		if text != `{"b":1,"a":2}` {
			t.Errorf("raw JSON stored as %s", text)
		}
	})
}

func TestJSON_IsNullForNil(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, none := range []any{nil, []string(nil), map[string]int(nil), (*int)(nil), json.RawMessage(nil)} {
			got := []string{"as it was"}
			roundTrip(t, d, "TEXT", db.JSON(none), db.ToJSON(&got))
			if len(got) != 1 {
				t.Errorf("%T(nil) came back as %v", none, got)
			}
		}
		got := []string{"as it was"}
		roundTrip(t, d, "TEXT", db.JSON([]string{}), db.ToJSON(&got))
		if len(got) != 0 {
			t.Errorf("an empty list came back as %v", got)
		}
	})
}

func TestJSON_ThatCannotBeEncodedIsAnErrorOfTheStatement(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		err := d.Write(t.Context(), execute(`INSERT INTO installation (name, value) VALUES ('x', $1)`, db.JSON(math.NaN())))
		if err == nil || !strings.Contains(err.Error(), "NaN") {
			t.Errorf("got error %v", err)
		}
	})
}

func TestColumns_OfOtherKindsComeBackAsTheyWere(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, want := range []bool{true, false} {
			got := !want
			roundTrip(t, d, "BOOLEAN", want, &got)
			if got != want {
				t.Errorf("%t came back as %t", want, got)
			}
		}
		for _, want := range []int64{0, -1, math.MaxInt64, math.MinInt64} {
			var got int64
			roundTrip(t, d, "BIGINT", want, &got)
			if got != want {
				t.Errorf("%d came back as %d", want, got)
			}
		}
		want, got := []byte{0, 1, 255}, []byte(nil)
		roundTrip(t, d, "BLOB", want, &got)
		if !bytes.Equal(got, want) {
			t.Errorf("%v came back as %v", want, got)
		}
	})
}

func TestBoolean_IsUnderstoodInConditionsAndLiterals(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		write(t, d, `CREATE TABLE lamps (id TEXT PRIMARY KEY, lit BOOLEAN NOT NULL DEFAULT FALSE)`)
		write(t, d, `INSERT INTO lamps (id, lit) VALUES ('a', TRUE), ('b', FALSE), ('c', $1)`, true)
		if n := number(t, d, `SELECT count(*) FROM lamps WHERE lit`); n != 2 {
			t.Errorf("%d are lit, want 2", n)
		}
		if n := number(t, d, `SELECT count(*) FROM lamps WHERE NOT lit AND lit = $1`, false); n != 1 {
			t.Errorf("%d are not lit, want 1", n)
		}
		var some bool
		err := d.Read(t.Context(), func(q *db.Q) error {
			return q.QueryRow(`SELECT EXISTS (SELECT 1 FROM lamps WHERE lit)`).Scan(&some)
		})
		if err != nil || !some {
			t.Errorf("some are lit: %t, %v", some, err)
		}
	})
}
