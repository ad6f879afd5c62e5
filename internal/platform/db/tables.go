package db

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A Kind is what a column stores, on both engines.
type Kind string

// The kinds of columns.
const (
	BooleanColumn Kind = "boolean"
	IntegerColumn Kind = "integer"
	TextColumn    Kind = "text"
	BytesColumn   Kind = "bytes"
)

// A Column is a column of a table.
type Column struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
}

// A Table describes a table of ours in a database.
type Table struct {
	Name    string   `json:"name"`
	Columns []Column `json:"columns"`
	// Key are the columns that order the rows: the primary key, or all columns.
	Key []string `json:"key"`
	// Sequence is the last number that the table assigned to a row; 0: none, or no such column.
	Sequence int64 `json:"sequence,omitempty"`
}

// columnKinds maps the names of types of both engines.
var columnKinds = map[string]Kind{
	"boolean": BooleanColumn,
	"integer": IntegerColumn, "bigint": IntegerColumn,
	"text": TextColumn,
	"blob": BytesColumn, "bytea": BytesColumn,
}

// Tables returns the tables of ours in the database, by name. A PostgreSQL database can contain tables of others.
func (q *Q) Tables() ([]Table, error) {
	text := `SELECT name FROM sqlite_schema WHERE type = 'table'`
	if q.engine == PostgreSQL {
		text = `SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace`
	}
	names, err := Strings(q, text)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var tables []Table
	for _, name := range names {
		if !ownTables()[name] {
			continue
		}
		t, err := q.table(name)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

func (q *Q) table(name string) (Table, error) {
	t := Table{Name: name}
	text := `SELECT name, lower(type), pk, FALSE FROM pragma_table_info($1) ORDER BY cid`
	if q.engine == PostgreSQL {
		text = `
			SELECT a.attname::text, format_type(a.atttypid, NULL), COALESCE(array_position(i.indkey::smallint[], a.attnum) + 1, 0), a.attidentity <> ''
			FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
			WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`
	}
	key := map[int]string{}
	identity := ""
	err := Each(q, func(row Scan) error {
		var column, kind string
		var place int
		var numbered bool
		if err := row(&column, &kind, &place, &numbered); err != nil {
			return err
		}
		known, ok := columnKinds[kind]
		if !ok {
			return fmt.Errorf("column %s has the type %s, which cannot be copied", column, kind)
		}
		t.Columns = append(t.Columns, Column{Name: column, Kind: known})
		if place > 0 {
			key[place] = column
		}
		if numbered {
			identity = column
		}
		return nil
	}, text, name)
	if err != nil {
		return t, err
	}
	// Columns that were added later are last on one database and in the middle on another.
	slices.SortFunc(t.Columns, func(a, b Column) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i <= len(key); i++ {
		t.Key = append(t.Key, key[i])
	}
	if len(key) == 0 {
		for _, c := range t.Columns {
			t.Key = append(t.Key, c.Name)
		}
	}
	t.Sequence, err = q.sequence(name, identity)
	return t, err
}

// sequence returns the last number that a table assigned.
func (q *Q) sequence(table, identity string) (last int64, err error) {
	if q.engine == SQLite {
		if n, err := Count(q, `SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_sequence'`); err != nil || n == 0 {
			return 0, err
		}
		return last, q.QueryRow(`SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = $1`, table).Scan(&last)
	}
	if identity == "" {
		return 0, nil
	}
	var name string
	if err := q.QueryRow(`SELECT pg_get_serial_sequence($1, $2)`, table, identity).Scan(&name); err != nil {
		return 0, err
	}
	return last, q.QueryRow(`SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ` + name).Scan(&last)
}

var tableName = regexp.MustCompile(`(?i)(?:CREATE\s+(?:/\* UNLOGGED \*/\s+)?TABLE\s+(?:IF NOT EXISTS\s+)?|\bRENAME\s+TO\s+)(\w+)`)

// ownTables are the names of all tables that migrations have created.
var ownTables = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for _, folder := range []string{mainSchema, resultsSchema} {
		paths, _ := fs.Glob(files, folder+"/*.sql")
		for _, path := range paths {
			text, _ := files.ReadFile(path)
			for _, m := range tableName.FindAllSubmatch(text, -1) {
				names[string(m[1])] = true
			}
		}
	}
	return names
})
