package db_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// neverDeleted are the tables whose rows are never deleted, so that no delete follows a foreign key to them.
var neverDeleted = []string{"organizations", "users"}

func TestNeverDeleted(t *testing.T) {
	deletes := regexp.MustCompile(`(?i)DELETE\s+FROM\s+(` + strings.Join(neverDeleted, "|") + `)\b`)
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join("..", path))
		if found := deletes.Find(text); found != nil {
			t.Errorf("%s has %q; index the foreign keys to that table, and take it out of neverDeleted", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A delete searches the rows that refer to the deleted one, once per foreign key. Without an index that starts
// with the columns of the key it reads the whole table.
func TestMigrations_IndexEveryForeignKeyThatADeleteFollows(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var keys []string
		var indexes []string
		err := d.Read(t.Context(), func(q *db.Q) (err error) {
			if keys, err = db.All(q, scanText, foreignKeys[d.Engine()]); err != nil {
				return err
			}
			indexes, err = db.All(q, scanText, indexTexts[d.Engine()])
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) < 40 {
			t.Fatalf("found only %d foreign keys", len(keys))
		}
		for _, key := range keys {
			if !slices.ContainsFunc(indexes, func(index string) bool { return serves(index, key) }) {
				t.Errorf("no index serves the foreign key %s", key)
			}
		}
	})
}

// foreignKeys lists every foreign key to a table with deletes as "table (columns".
var foreignKeys = map[db.Engine]string{
	db.SQLite: `
		SELECT m.name || ' (' || group_concat(f."from", ', ' ORDER BY f.seq)
		FROM sqlite_schema m, pragma_foreign_key_list(m.name) f
		WHERE m.type = 'table' AND f."table" NOT IN ('` + strings.Join(neverDeleted, "', '") + `')
		GROUP BY m.name, f.id
		ORDER BY 1`,
	db.PostgreSQL: `
		SELECT c.conrelid::regclass || ' (' || string_agg(a.attname, ', ' ORDER BY k.n)
		FROM pg_constraint c
		CROSS JOIN unnest(c.conkey) WITH ORDINALITY AS k (attnum, n)
		JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.attnum
		WHERE c.contype = 'f' AND c.confrelid::regclass::text NOT IN ('` + strings.Join(neverDeleted, "', '") + `')
		GROUP BY c.oid, c.conrelid
		ORDER BY 1`,
}

// indexTexts lists every index as "table (columns) WHERE condition".
var indexTexts = map[db.Engine]string{
	db.SQLite: `
		SELECT m.name || ' (' || group_concat(coalesce(c.name, '?'), ', ' ORDER BY c.seqno) || ')'
			|| coalesce((SELECT ' ' || substr(s.sql, instr(s.sql, 'WHERE')) FROM sqlite_schema s WHERE s.name = i.name AND i.partial), '')
		FROM sqlite_schema m, pragma_index_list(m.name) i, pragma_index_info(i.name) c
		WHERE m.type = 'table'
		GROUP BY m.name, i.name`,
	db.PostgreSQL: `
		SELECT i.indrelid::regclass || ' (' || string_agg(pg_get_indexdef(i.indexrelid, k.n, FALSE), ', ' ORDER BY k.n) || ')'
			|| coalesce(' WHERE ' || pg_get_expr(i.indpred, i.indrelid), '')
		FROM pg_index i
		CROSS JOIN generate_series(1, i.indnatts) AS k (n)
		GROUP BY i.indexrelid, i.indrelid, i.indpred, i.indnatts`,
}

var partOf = regexp.MustCompile(`^(.*)\) WHERE \(?(\w+) IS NOT NULL\)?$`)

// serves reports whether an index finds the rows of a foreign key. A partial index that only omits rows without
// a reference does.
func serves(index, key string) bool {
	if part := partOf.FindStringSubmatch(index); part != nil && strings.HasSuffix(key, "("+part[2]) {
		index = part[1] + ")"
	}
	return !strings.Contains(index, " WHERE ") && (strings.HasPrefix(index, key+")") || strings.HasPrefix(index, key+","))
}

func TestServes(t *testing.T) {
	for text, want := range map[string]bool{
		"jobs (build_id, position, id)":                 true,
		"jobs (build_id)":                               true,
		"jobs (build_id) WHERE (build_id IS NOT NULL)":  true,
		"jobs (build_id) WHERE build_id IS NOT NULL":    true,
		"jobs (build_id) WHERE (unblocked IS NOT NULL)": false,
		"jobs (build_id) WHERE state = 'x'":             false,
		"jobs (build_id_too)":                           false,
		"jobs (position, build_id)":                     false,
		"steps (build_id)":                              false,
	} {
		if got := serves(text, "jobs (build_id"); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
