package db

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5/stdlib"
)

// Snapshot runs fn with a connection of its own that cannot write. All statements see what was committed before
// the first, however long fn takes, while others write. There are no timeouts. fn runs once.
func (d *DB) Snapshot(ctx context.Context, fn func(q *Q) error) error {
	refuseNested(ctx, "Snapshot")
	pool, begin, err := d.snapshotPool()
	if err != nil {
		return err
	}
	defer pool.Close()
	opened, err := pool.Conn(ctx)
	if err != nil {
		return asUnavailable(ctx, err)
	}
	conn := &connection{Conn: opened}
	if d.name == SQLite {
		conn = newConnection(opened)
		if err := conn.keepInterrupts(); err != nil {
			conn.discard()
			return err
		}
	}
	defer conn.discard() // and with it the transaction
	for _, text := range begin {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return asUnavailable(ctx, err)
		}
	}
	q := &Q{ctx: markNested(ctx), run: ctx, engine: d.name, conn: conn}
	defer q.end()
	return asUnavailable(ctx, fn(q))
}

// snapshotPool returns a pool of connections without timeouts, and the statements that fix what a transaction
// sees.
func (d *DB) snapshotPool() (*sql.DB, []string, error) {
	if e, ok := d.engine.(*postgresEngine); ok {
		config := e.pool.Config().ConnConfig
		removeTimeouts(config)
		return stdlib.OpenDB(*config), []string{`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`, `SELECT 1 FROM pg_class LIMIT 1`}, nil
	}
	pool, err := openFile(d.engine.(*sqliteEngine).path, "query_only(1)")
	return pool, []string{`BEGIN`, `SELECT count(*) FROM sqlite_schema`}, err
}

// Schemas returns the databases that contain the tables of an installation: d, and on SQLite the one of test results
// too. Unlike [DB.Results] it does not migrate.
func (d *DB) Schemas(ctx context.Context) ([]*DB, error) {
	if d.name == PostgreSQL {
		return []*DB{d}, nil
	}
	results, err := d.openResults(ctx)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", resultsFile, err)
	}
	return []*DB{d, results}, nil
}

// Versions are the numbers of the newest applied migrations; 0: none.
type Versions struct {
	Main    int64 `json:"main"`
	Results int64 `json:"results"`
}

// Newest are the versions that this program migrates to.
func Newest() (v Versions, err error) {
	if v.Main, err = newestMigration(mainSchema); err != nil {
		return v, err
	}
	v.Results, err = newestMigration(resultsSchema)
	return v, err
}

// Versions returns the versions of the schemas of an installation.
func (d *DB) Versions(ctx context.Context) (v Versions, err error) {
	parts, err := d.Schemas(ctx)
	if err != nil {
		return v, err
	}
	for _, part := range parts {
		one, err := part.versions(ctx)
		if err != nil {
			return v, asUnavailable(ctx, err)
		}
		v.Main, v.Results = max(v.Main, one.Main), max(v.Results, one.Results)
	}
	return v, nil
}
