package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// loadTable exists while a database is being filled by a [Loader]: the source, which tables are loaded how far, and
// the foreign keys to restore. No server uses a database that has it.
const loadTable = "stackyard_load"

// Names of rows of loadTable.
const (
	loadSource      = "source"
	loadPrepared    = "prepared"
	loadForeignKeys = "foreign_keys"
	loadedPrefix    = "table:"
)

// ErrNotEmpty is in the error chain for a database that already has an installation.
var ErrNotEmpty = errors.New("the database already contains an installation")

// ErrOtherLoad is in the error chain for a database that is being filled from another source.
var ErrOtherLoad = errors.New("the database is partly filled from another source")

func unfinishedLoad(source string) error {
	if source == "" {
		return nil
	}
	return fmt.Errorf("the database is only partly filled from %s; run the same restore or migrate-database command again to continue", source)
}

// LoadingFrom returns the source from which the database is being filled; "" if it is complete.
func (d *DB) LoadingFrom(ctx context.Context) (source string, err error) {
	err = d.Read(ctx, func(q *Q) error {
		exists, err := q.loading()
		if err != nil || !exists {
			return err
		}
		err = q.QueryRow(`SELECT value FROM `+loadTable+` WHERE name = $1`, loadSource).Scan(&source)
		return err
	})
	return source, err
}

// loading reports whether the table of a load exists.
func (q *Q) loading() (exists bool, err error) {
	text := `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = $1)`
	if q.engine == PostgreSQL {
		text = `SELECT to_regclass($1) IS NOT NULL`
	}
	return exists, q.QueryRow(text, loadTable).Scan(&exists)
}

// A Loader fills the tables of an empty database in several transactions. It records its progress in the database, so
// that another process can continue. References between rows are checked at the end only.
type Loader struct {
	d      *DB
	pool   *sql.DB
	loaded map[string]int
}

// StartLoad prepares an empty database for rows of a source: it migrates to versions and removes the rows that
// migrations insert. It continues an earlier load from the same source. The error is ErrNotEmpty or ErrOtherLoad for
// any other database.
func (d *DB) StartLoad(ctx context.Context, source string, to Versions) (*Loader, error) {
	unfinished, err := d.LoadingFrom(ctx)
	if err != nil {
		return nil, err
	}
	l := &Loader{d: d, loaded: map[string]int{}}
	if l.pool, err = d.loadPool(); err != nil {
		return nil, err
	}
	switch {
	case unfinished == "":
		err = l.begin(ctx, source)
	case unfinished != source:
		err = fmt.Errorf("%w: %s", ErrOtherLoad, unfinished)
	}
	if err == nil {
		err = l.prepare(ctx, to)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (d *DB) loadPool() (*sql.DB, error) {
	if e, ok := d.engine.(*postgresEngine); ok {
		config := e.pool.Config().ConnConfig
		removeTimeouts(config)
		return stdlib.OpenDB(*config), nil
	}
	return openFile(d.engine.(*sqliteEngine).path, "foreign_keys(0)", "synchronous(FULL)", "journal_size_limit(67108864)")
}

// Close releases the connections. The load can be continued later.
func (l *Loader) Close() error { return l.pool.Close() }

func (l *Loader) begin(ctx context.Context, source string) error {
	has, err := l.d.versions(ctx)
	if err != nil {
		return err
	}
	if has != (Versions{}) {
		return ErrNotEmpty
	}
	return l.write(ctx, func(q *Q) error {
		if _, err := q.Exec(`CREATE TABLE ` + loadTable + ` (name TEXT PRIMARY KEY, value TEXT NOT NULL)`); err != nil {
			return err
		}
		return q.note(loadSource, source)
	})
}

// prepare migrates, empties the tables and removes foreign keys, which SQLite only ignores.
func (l *Loader) prepare(ctx context.Context, to Versions) error {
	notes := map[string]string{}
	err := l.write(ctx, func(q *Q) error {
		return Each(q, func(row Scan) error {
			var name, value string
			err := row(&name, &value)
			notes[name] = value
			return err
		}, `SELECT name, value FROM `+loadTable)
	})
	if err != nil {
		return err
	}
	if notes[loadPrepared] != "" {
		for name, value := range notes {
			if table, ok := strings.CutPrefix(name, loadedPrefix); ok {
				l.loaded[table], _ = strconv.Atoi(value)
			}
		}
		return nil
	}
	if err := l.d.migrateTo(ctx, to, always); err != nil {
		return err
	}
	return l.write(ctx, func(q *Q) error {
		tables, err := q.Tables()
		if err != nil {
			return err
		}
		if err := q.dropForeignKeys(tables); err != nil {
			return err
		}
		for _, t := range tables {
			if _, err := q.Exec(`DELETE FROM ` + t.Name); err != nil {
				return err
			}
		}
		return q.note(loadPrepared, "true")
	})
}

func (q *Q) note(name, value string) error {
	_, err := q.Exec(`INSERT INTO `+loadTable+` (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
	return err
}

type foreignKey struct{ Table, Name, Definition string }

// dropForeignKeys drops the foreign keys of PostgreSQL tables and stores how to create them again.
func (q *Q) dropForeignKeys(tables []Table) error {
	if q.engine == SQLite {
		return nil
	}
	keys, err := All(q, func(row Scan) (k foreignKey, err error) {
		return k, row(&k.Table, &k.Name, &k.Definition)
	}, `SELECT conrelid::regclass::text, conname::text, pg_get_constraintdef(oid) FROM pg_constraint
		WHERE contype = 'f' AND connamespace = current_schema()::regnamespace ORDER BY 1, 2`)
	if err != nil {
		return err
	}
	keys = slices.DeleteFunc(keys, func(k foreignKey) bool {
		return !slices.ContainsFunc(tables, func(t Table) bool { return t.Name == k.Table })
	})
	text, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	if err := q.note(loadForeignKeys, string(text)); err != nil {
		return err
	}
	for _, k := range keys {
		if _, err := q.Exec(`ALTER TABLE ` + k.Table + ` DROP CONSTRAINT ` + k.Name); err != nil {
			return err
		}
	}
	return nil
}

// Loaded returns how many chunks of a table are loaded.
func (l *Loader) Loaded(table string) int { return l.loaded[table] }

// Add inserts the rows of the next chunk of a table, with values in the order of its columns.
func (l *Loader) Add(ctx context.Context, t Table, rows [][]any) error {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	chunks := l.loaded[t.Name] + 1
	err := l.write(ctx, func(q *Q) error {
		insert := `INSERT INTO ` + t.Name + ` (` + strings.Join(names, ", ") + `)`
		if err := InsertMany(q, insert, rows, func(row []any) []any { return row }, ""); err != nil {
			return err
		}
		return q.note(loadedPrefix+t.Name, strconv.Itoa(chunks))
	})
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	l.loaded[t.Name] = chunks
	return nil
}

// Finish checks references between rows, continues the numbers of tables after those of the source, and makes the
// database usable.
func (l *Loader) Finish(ctx context.Context, tables []Table) error {
	return l.write(ctx, func(q *Q) error {
		if err := q.restoreForeignKeys(); err != nil {
			return fmt.Errorf("check references between rows: %w", err)
		}
		for _, t := range tables {
			if err := q.continueSequence(t); err != nil {
				return fmt.Errorf("table %s: %w", t.Name, err)
			}
		}
		if _, err := q.Exec(`DROP TABLE ` + loadTable); err != nil {
			return err
		}
		return q.analyze(tables)
	})
}

// analyze gives PostgreSQL the statistics that it would collect later by itself. SQLite plans without any.
func (q *Q) analyze(tables []Table) error {
	if q.engine == SQLite {
		return nil
	}
	for _, t := range tables {
		if _, err := q.Exec(`ANALYZE ` + t.Name); err != nil {
			return err
		}
	}
	return nil
}

func (q *Q) restoreForeignKeys() error {
	if q.engine == SQLite {
		broken, err := Strings(q, `SELECT DISTINCT "table" || ' refers to missing rows of ' || parent FROM pragma_foreign_key_check LIMIT 10`)
		if err == nil && len(broken) > 0 {
			err = errors.New(strings.Join(broken, "; "))
		}
		return err
	}
	var keys []foreignKey
	if err := q.QueryRow(`SELECT value FROM `+loadTable+` WHERE name = $1`, loadForeignKeys).Scan(ToJSON(&keys)); err != nil {
		return err
	}
	for _, k := range keys {
		if _, err := q.Exec(`ALTER TABLE ` + k.Table + ` ADD CONSTRAINT ` + k.Name + ` ` + k.Definition); err != nil {
			return err
		}
	}
	return nil
}

func (q *Q) continueSequence(t Table) error {
	if t.Sequence == 0 {
		return nil
	}
	if q.engine == SQLite {
		n, err := q.Exec(`UPDATE sqlite_sequence SET seq = max(seq, $1) WHERE name = $2`, t.Sequence, t.Name)
		if err == nil && n == 0 {
			_, err = q.Exec(`INSERT INTO sqlite_sequence (name, seq) VALUES ($1, $2)`, t.Name, t.Sequence)
		}
		return err
	}
	_, err := q.Exec(`
		SELECT setval(pg_get_serial_sequence($1, attname), $2)
		FROM pg_attribute WHERE attrelid = to_regclass($1) AND attidentity <> '' AND NOT attisdropped`, t.Name, t.Sequence)
	return err
}

// DiscardLoad removes everything that an unfinished load has written. It does nothing to a complete database.
func (d *DB) DiscardLoad(ctx context.Context) error {
	source, err := d.LoadingFrom(ctx)
	if err != nil || source == "" {
		return err
	}
	pool, err := d.loadPool()
	if err != nil {
		return err
	}
	l := &Loader{d: d, pool: pool}
	defer l.Close()
	return l.write(ctx, func(q *Q) error {
		cascade := ""
		if q.engine == PostgreSQL {
			cascade = " CASCADE"
		}
		for name := range ownTables() {
			if _, err := q.Exec(`DROP TABLE IF EXISTS ` + name + cascade); err != nil {
				return err
			}
		}
		for _, name := range []string{goose.DefaultTablename, resultsVersions, loadTable} {
			if _, err := q.Exec(`DROP TABLE IF EXISTS ` + name); err != nil {
				return err
			}
		}
		return nil
	})
}

// write runs fn as one transaction, once.
func (l *Loader) write(ctx context.Context, fn func(*Q) error) error {
	opened, err := l.pool.Conn(ctx)
	if err != nil {
		return asUnavailable(ctx, err)
	}
	defer opened.Close()
	begin, q := `BEGIN IMMEDIATE`, &Q{ctx: markNested(ctx), run: ctx, engine: l.d.name, writing: true}
	if e, ok := l.d.engine.(*postgresEngine); ok {
		begin, q.types, q.conn = `BEGIN`, &e.types, &connection{Conn: opened}
	} else {
		q.conn = newConnection(opened)
		defer q.conn.closeStatements()
	}
	if _, err := opened.ExecContext(ctx, begin); err != nil {
		return asUnavailable(ctx, err)
	}
	err = fn(q)
	if failed := q.end(); err == nil {
		err = failed
	}
	if err != nil {
		finish(ctx, opened, `ROLLBACK`)
		return asUnavailable(ctx, err)
	}
	return asUnavailable(ctx, finish(ctx, opened, `COMMIT`))
}
