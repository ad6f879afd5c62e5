package db

import "context"

// RunAsMigration runs a statement on the connection that migrates a SQLite database.
func RunAsMigration(ctx context.Context, d *DB, text string) error {
	file, _, err := d.engine.(*sqliteEngine).schemaFile()
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.ExecContext(ctx, text)
	return err
}

// MigrateTo migrates to older versions than the newest.
func MigrateTo(ctx context.Context, d *DB, to Versions) error { return d.migrateTo(ctx, to) }
