package db

import (
	"context"
	"errors"
	"fmt"
)

// Upgrades follow expand and contract: the program of the release before works on the schema of this one, so that servers
// of both run side by side during an upgrade. These numbers change with each release.
var (
	// previousSchema is the schema of the release before.
	previousSchema int64 = 60
	// oldestSchema is the oldest schema that this program can migrate. It rises when old migrations are removed.
	oldestSchema int64 = 1
)

// ErrUnsafeUpgrade is in the error chain for a database that this program must not migrate now.
var ErrUnsafeUpgrade = errors.New("this upgrade is not safe")

// checkUpgrade refuses to migrate a database that is too old, and one that servers older than the release before use.
func (d *DB) checkUpgrade(ctx context.Context) error {
	has, err := d.versions(ctx)
	if err != nil || has.Main == 0 || has.Main >= previousSchema {
		return err
	}
	if has.Main < oldestSchema {
		return fmt.Errorf("%w: the database has schema %d, and this program migrates from schema %d on; "+
			"start an older release first, which migrates it (docs/upgrade.md)", ErrUnsafeUpgrade, has.Main, oldestSchema)
	}
	busy, err := d.otherServers(ctx)
	if err != nil || !busy {
		return err
	}
	return fmt.Errorf("%w while other servers run: the database has schema %d, and their version cannot use the schema of this one; "+
		"stop all servers and start this one again, or upgrade to the release in between first", ErrUnsafeUpgrade, has.Main)
}

// otherServers reports whether another process serves from the file.
func (e *sqliteEngine) otherServers(ctx context.Context) (bool, error) {
	if e.unlockServer != nil {
		return false, nil // this process is the server
	}
	unlock, err := lockFile(ctx, e.path+"-server", 0)
	if isBusy(err) {
		return true, nil
	}
	if err == nil {
		unlock()
	}
	return false, err
}

// otherServers reports whether another process of this program is connected to the database.
func (e *postgresEngine) otherServers(ctx context.Context) (busy bool, err error) {
	err = e.pool.QueryRow(ctx, `
		SELECT EXISTS (
			SELECT 1 FROM pg_stat_activity
			WHERE datname = current_database() AND application_name LIKE '% #%' AND application_name NOT LIKE '%' || $1
		)`, " #"+e.process).Scan(&busy)
	return busy, err
}
