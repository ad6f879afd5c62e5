package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// EngineVersion returns the name and version of the database program.
func (d *DB) EngineVersion(ctx context.Context) (version string, err error) {
	text := `SELECT 'SQLite ' || sqlite_version()`
	if d.name == PostgreSQL {
		text = `SELECT 'PostgreSQL ' || current_setting('server_version')`
	}
	err = d.Read(ctx, func(q *Q) error { return q.QueryRow(text).Scan(&version) })
	return version, err
}

// Size returns the size of the database in bytes: on SQLite of its files, on PostgreSQL of all that is in it.
func (d *DB) Size(ctx context.Context) (size int64, err error) {
	e, ok := d.engine.(*sqliteEngine)
	if !ok {
		err = d.Read(ctx, func(q *Q) error { return q.QueryRow(`SELECT pg_database_size(current_database())`).Scan(&size) })
		return size, err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		stat, err := os.Stat(e.path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		size += stat.Size()
	}
	return size, nil
}

// minPostgres is the oldest major version of PostgreSQL that works.
const minPostgres = 15

// Problems checks the database itself and returns what is wrong with it, one sentence each. On SQLite it reads the
// whole file.
func (d *DB) Problems(ctx context.Context) (found []string, err error) {
	err = d.Snapshot(ctx, func(q *Q) error {
		if q.engine == SQLite {
			// As a function, it takes the number for the name of a table.
			lines, err := Strings(q, `PRAGMA quick_check(10)`)
			for _, line := range lines {
				if line != "ok" {
					found = append(found, "the file is damaged: "+line)
				}
			}
			return err
		}
		var version, used, limit int
		var standby bool
		err := q.QueryRow(`
			SELECT current_setting('server_version_num')::integer / 10000, pg_is_in_recovery(),
				(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), current_setting('max_connections')::integer`).
			Scan(&version, &standby, &used, &limit)
		if version < minPostgres {
			found = append(found, fmt.Sprintf("PostgreSQL %d is too old; version %d or newer is needed", version, minPostgres))
		}
		if standby {
			found = append(found, "the server is a standby, which cannot be written")
		}
		if used*10 > limit*9 {
			found = append(found, fmt.Sprintf("%d of %d connections are in use; increase max_connections, or give fewer with pool_max_conns in --database", used, limit))
		}
		return err
	})
	return found, err
}
