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
func MigrateTo(ctx context.Context, d *DB, to Versions) error { return d.migrateTo(ctx, to, always) }

// SetOldestSchema replaces the oldest schema that can be migrated, and returns how to restore it.
func SetOldestSchema(version int64) (restore func()) {
	was := oldestSchema
	oldestSchema = version
	return func() { oldestSchema = was }
}

// PreviousSchema is the schema of the release before.
func PreviousSchema() int64 { return previousSchema }
