package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/tablecopy"
)

// Both are secret: a URL of PostgreSQL can contain a password.
var migrateSettings = []cmdline.Setting{
	{Flag: "from", Variable: "STACKYARD_MIGRATE_FROM", Secret: true, Usage: "the database to copy: sqlite:PATH of the file or its folder, or postgres://…"},
	{Flag: "to", Variable: "STACKYARD_MIGRATE_TO", Secret: true, Usage: "the empty database to fill: postgres://…, or sqlite:PATH of a new file"},
}

func migrateDatabaseCommand() *cobra.Command {
	var restart bool
	cmd := &cobra.Command{
		Use:   "migrate-database --from DATABASE --to DATABASE",
		Short: "Copy an installation's database to another engine",
		Long: `Copy all tables of an installation from SQLite to PostgreSQL, or the other way
around, and compare numbers of rows and checksums of all tables.

Stop all servers first. The source is not changed. After an interruption, run the
same command again to continue, or add --restart to start over. Servers refuse to
start on the new database until it is complete. Logs, artifacts and the secret key
stay where they are.`,
		Example: `  stackyard migrate-database --from sqlite:/var/lib/stackyard --to postgres://ci@db/ci`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			values, err := cmdline.Gather(cmd, migrateSettings, nil)
			if err != nil {
				return cmdline.Usage(err)
			}
			for _, s := range migrateSettings {
				if values[s.Flag] == "" {
					return cmdline.Usage(fmt.Errorf("--%s is required: sqlite:PATH or postgres://…", s.Flag))
				}
			}
			return migrateDatabase(cmd, databaseFile(values["from"]), databaseFile(values["to"]), restart)
		},
	}
	cmd.Flags().BoolVar(&restart, "restart", false, "remove what an unfinished copy has written, and start over")
	cmdline.AddFlags(cmd, migrateSettings)
	return cmd
}

// databaseFile completes the path of a SQLite database that is given as a folder.
func databaseFile(given string) string {
	path, ok := sqlitePath(given)
	if ok && filepath.Ext(path) != ".db" {
		return "sqlite:" + filepath.Join(path, "stackyard.db")
	}
	return given
}

func migrateDatabase(cmd *cobra.Command, fromURL, toURL string, restart bool) (err error) {
	ctx := cmd.Context()
	if fromURL == toURL {
		return cmdline.Usage(errors.New("--from and --to name the same database"))
	}
	from, err := openDatabase(ctx, fromURL)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := from.LockServer(ctx); err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	if err := complete(ctx, from); err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	to, err := db.Open(ctx, toURL, quietLog())
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := to.LockServer(ctx); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	if restart {
		if err := tablecopy.Discard(ctx, to); err != nil {
			return fmt.Errorf("--to: %w", err)
		}
	}
	began := time.Now()
	copied, err := tablecopy.Copy(ctx, from, to, withoutPassword(fromURL))
	switch {
	case errors.Is(err, db.ErrNotEmpty):
		return fmt.Errorf("--to: %w; nothing is ever overwritten: name an empty database", err)
	case errors.Is(err, db.ErrOtherLoad):
		return fmt.Errorf("--to: %w; continue with that, or start over with --restart", err)
	case err != nil:
		return fmt.Errorf("copy the database: %w\nrun the same command again to continue", err)
	}
	lines := []string{fmt.Sprintf("copied %d tables with %d rows in %s", copied.Tables, copied.Rows, time.Since(began).Round(time.Millisecond))}
	if copied.Kept > 0 {
		lines = append(lines, fmt.Sprintf("continued an earlier copy that had %d of %d parts", copied.Kept, copied.Kept+copied.Chunks))
	}
	lines = append(lines, "compared the numbers of rows and the checksums of all tables: equal")
	if to.Engine() == db.PostgreSQL {
		lines = append(lines, "start servers with the new --database, the same --data or --blobs, and the secret key of the old installation,",
			fmt.Sprintf("for example: STACKYARD_SECRET_KEY_FILE=%s", filepath.Join(cmp.Or(from.Folder(), "DATA"), "secret.key")))
	}
	return printLines(cmd.OutOrStdout(), lines...)
}

// complete returns nil if a database contains a complete installation that this program knows.
func complete(ctx context.Context, d *db.DB) error {
	unfinished, err := d.LoadingFrom(ctx)
	if err != nil {
		return err
	}
	versions, err := d.Versions(ctx)
	if err != nil {
		return err
	}
	newest, err := db.Newest()
	switch {
	case err != nil:
		return err
	case unfinished != "":
		return fmt.Errorf("the database is only partly filled from %s; finish that first", unfinished)
	case versions.Main == 0:
		return errors.New("the database contains no installation")
	case versions.Main > newest.Main || versions.Results > newest.Results:
		return fmt.Errorf("the database has schema %d, this program knows schemas up to %d; use the program that runs the server", versions.Main, newest.Main)
	}
	return nil
}

// withoutPassword returns a database URL that can be stored and shown.
func withoutPassword(given string) string {
	if path, ok := sqlitePath(given); ok {
		if absolute, err := filepath.Abs(path); err == nil {
			path = absolute
		}
		return "sqlite:" + path
	}
	u, err := url.Parse(given)
	if err != nil {
		return "postgres"
	}
	return u.Redacted()
}
