package db

import (
	"context"
	"fmt"
	"strconv"
)

// LockServer makes this process the only server of a SQLite database until [DB.Close] or the end of the
// process. It fails when another process has the lock. Programs that do not serve, for example apply, need no
// lock. Any number of servers share a PostgreSQL database, so there it does nothing.
func (d *DB) LockServer(ctx context.Context) error { return d.lockServer(ctx) }

func (e *sqliteEngine) lockServer(ctx context.Context) (err error) {
	e.unlockServer, err = lockFile(ctx, e.path+"-server", 0)
	if isBusy(err) {
		return fmt.Errorf("another server is using %s; stop it first, or share a PostgreSQL database (--database) to run several servers", e.path)
	}
	return err
}

func (e *postgresEngine) lockServer(context.Context) error { return nil }

// lockFile takes SQLite's own lock on an empty file, which works on every system and ends with the process.
// When another process keeps the lock for longer than wait, in milliseconds, [isBusy] is true for the error.
func lockFile(ctx context.Context, name string, wait int) (unlock func(), err error) {
	if err := createFile(name); err != nil {
		return nil, err
	}
	db, err := openFile(name, "busy_timeout("+strconv.Itoa(wait)+")")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, `BEGIN EXCLUSIVE`); err != nil {
		db.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { db.Close() }, nil
}
