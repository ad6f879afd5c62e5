package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"stackyard/internal/app/backup"
	"stackyard/internal/app/server"
	"stackyard/internal/clients/cmdline"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
)

func backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Back up and restore an installation",
		Long: `Back up and restore an installation: the database, SQLite or PostgreSQL, and all
logs and artifacts.

PLACE is a folder, or a bucket as in --blobs: s3://bucket/prefix?endpoint=…, with
credentials from AWS_… variables. One place keeps any number of backups of one
installation; each writes only what is new.`,
		Example: `  stackyard backup create /mnt/backups --key-file /root/backup.key
  stackyard backup verify /mnt/backups --key-file /root/backup.key
  stackyard backup restore /mnt/backups --key-file /root/backup.key --data /var/lib/stackyard`,
	}
	cmd.AddCommand(backupCreateCommand(), backupListCommand(), backupVerifyCommand(), backupRestoreCommand(), backupPruneCommand())
	return cmd
}

func backupCreateCommand() *cobra.Command {
	var withKey bool
	cmd := &cobra.Command{
		Use:   "create PLACE",
		Short: "Back up, while the server runs or not",
		Long: `Back up the database as of one moment, and all logs and artifacts. Servers can keep
running. What an earlier backup in PLACE has is not written again; after an
interruption, run the command again.

With --key-file the backup is encrypted, and contains the installation's secret key.
Without, keep the secret key elsewhere, or add it with --with-secret-key.`,
		Args: cmdline.Exactly("PLACE"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			in, err := installationOf(cmd)
			if err != nil {
				return err
			}
			d, err := openDatabase(cmd.Context(), in.database)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, d.Close()) }()
			src, err := backupSource(cmd.Context(), in, d, withKey || cmd.Flags().Changed("key-file"))
			if err != nil {
				return err
			}
			repository, err := openRepository(cmd, args[0], true)
			if err != nil {
				return err
			}
			began := time.Now()
			s, stats, err := repository.Create(cmd.Context(), src, began)
			if err != nil {
				return fmt.Errorf("back up: %w", err)
			}
			return printLines(cmd.OutOrStdout(),
				fmt.Sprintf("created backup %s of a %s database with schema %d", s.ID, s.Engine, s.Versions.Main),
				fmt.Sprintf("%d tables with %d rows; %d blobs with %s, %d of them new", len(s.Tables), s.Rows(), s.Blobs.Count, megabytes(s.Blobs.Bytes), stats.NewBlobs),
				fmt.Sprintf("wrote %s in %s", megabytes(stats.Written), time.Since(began).Round(time.Millisecond)),
				keyNote(s))
		},
	}
	cmd.Flags().BoolVar(&withKey, "with-secret-key", false, "store the installation's secret key in a backup that is not encrypted")
	addKeyFile(cmd)
	addSettings(cmd, installationSettings())
	return cmd
}

func keyNote(s *backup.Snapshot) string {
	if s.SecretKey != "" {
		return "the backup contains the installation's secret key"
	}
	return "the backup does not contain the installation's secret key; keep it elsewhere"
}

// backupSource checks that the database and the blobs of an installation can be backed up.
func backupSource(ctx context.Context, in installation, d *db.DB, withKey bool) (src backup.Source, err error) {
	if err := complete(ctx, d); err != nil {
		return src, err
	}
	src = backup.Source{DB: d, Program: cmdline.Version}
	if src.KeyFingerprint, err = server.KeyFingerprint(ctx, d); err != nil {
		return src, err
	}
	if in.key != nil && src.KeyFingerprint != "" && in.key.Fingerprint() != src.KeyFingerprint {
		return src, errors.New("the secret key is not the one of this installation; give the right --secret-key")
	}
	if withKey {
		if in.key == nil {
			return src, errors.New("--secret-key: give it, so that it becomes part of the backup")
		}
		src.SecretKey = in.key.Hex()
	}
	if src.Blobs, err = blob.Open(in.blobs); err == nil {
		err = src.Blobs.Check(ctx)
	}
	if err != nil {
		return src, fmt.Errorf("--blobs: %w", err)
	}
	return src, nil
}

func backupListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list PLACE",
		Short: "List backups",
		Args:  cmdline.Exactly("PLACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			repository, err := openRepository(cmd, args[0], false)
			if err != nil {
				return err
			}
			all, err := repository.List(cmd.Context())
			if err != nil {
				return err
			}
			for _, s := range all {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  schema %d  %d rows  %d blobs  %s\n",
					s.ID, s.Engine, s.Versions.Main, s.Rows(), s.Blobs.Count, megabytes(s.Blobs.Bytes)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	addKeyFile(cmd)
	return cmd
}

func backupVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify PLACE",
		Short: "Read a whole backup and check all of it",
		Long: `Read everything that a backup needs, decrypt it, and check rows, sizes and checksums.
A backup that passes can be restored.`,
		Args: cmdline.Exactly("PLACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			repository, s, err := openSnapshot(cmd, args[0])
			if err != nil {
				return err
			}
			if err := repository.Verify(cmd.Context(), s); err != nil {
				return fmt.Errorf("backup %s: %w", s.ID, err)
			}
			return printLines(cmd.OutOrStdout(), fmt.Sprintf("backup %s is complete: %d tables with %d rows, %d blobs with %s",
				s.ID, len(s.Tables), s.Rows(), s.Blobs.Count, megabytes(s.Blobs.Bytes)), keyNote(s))
		},
	}
	addSnapshot(cmd)
	addKeyFile(cmd)
	return cmd
}

func backupRestoreCommand() *cobra.Command {
	var restart bool
	cmd := &cobra.Command{
		Use:   "restore PLACE",
		Short: "Restore a backup into an empty installation",
		Long: `Restore a backup into the installation of --data, --database and --blobs, which must
be empty: nothing is ever overwritten. A backup of SQLite can be restored into
PostgreSQL, and the other way around.

Servers refuse to start until the restore is complete. After an interruption, run
the same command again to continue, or add --restart to start over.`,
		Args: cmdline.Exactly("PLACE"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			in, err := installationOf(cmd)
			if err != nil {
				return err
			}
			repository, s, err := openSnapshot(cmd, args[0])
			if err != nil {
				return err
			}
			key, err := restoredKey(in, s)
			if err != nil {
				return err
			}
			return restore(cmd, in, repository, s, key, restart)
		},
	}
	cmd.Flags().BoolVar(&restart, "restart", false, "remove what an unfinished restore has written, and start over")
	addSnapshot(cmd)
	addKeyFile(cmd)
	addSettings(cmd, installationSettings())
	return cmd
}

// restoredKey returns the secret key of a backup: the given one, or the one in the backup.
func restoredKey(in installation, s *backup.Snapshot) (*seal.Key, error) {
	if in.key != nil {
		if s.KeyFingerprint != "" && in.key.Fingerprint() != s.KeyFingerprint {
			return nil, errors.New("--secret-key is not the key of the backup; give the key of the installation that was backed up")
		}
		return in.key, nil
	}
	if s.SecretKey == "" {
		return nil, errors.New("--secret-key: the backup does not contain the secret key; give the key of the installation that was backed up")
	}
	key, err := seal.ParseKey(s.SecretKey)
	return &key, err
}

func restore(cmd *cobra.Command, in installation, repository *backup.Repository, s *backup.Snapshot, key *seal.Key, restart bool) (err error) {
	ctx := cmd.Context()
	if err := os.MkdirAll(in.data, 0o700); err != nil {
		return fmt.Errorf("create the data folder: %w", err)
	}
	d, err := db.Open(ctx, in.database, quietLog())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.LockServer(ctx); err != nil {
		return err
	}
	blobs, err := blob.Open(in.blobs)
	if err == nil {
		err = blobs.Check(ctx)
	}
	if err != nil {
		return fmt.Errorf("--blobs: %w", err)
	}
	if restart {
		if err := backup.Restart(ctx, d, blobs); err != nil {
			return err
		}
	}
	began := time.Now()
	done, err := repository.Restore(ctx, s, d, blobs)
	switch {
	case errors.Is(err, db.ErrNotEmpty):
		return fmt.Errorf("%w; restore never overwrites: name an empty --data or --database", err)
	case errors.Is(err, db.ErrOtherLoad):
		return fmt.Errorf("%w; continue with --snapshot, or start over with --restart", err)
	case err != nil:
		return fmt.Errorf("restore: %w\nrun the same command again to continue", err)
	}
	lines := []string{fmt.Sprintf("restored backup %s: %d tables with %d rows, %d blobs with %s, in %s",
		s.ID, len(s.Tables), s.Rows(), s.Blobs.Count, megabytes(s.Blobs.Bytes), time.Since(began).Round(time.Millisecond))}
	if done.Continued {
		lines = append(lines, fmt.Sprintf("continued an earlier restore that had %d blobs and %d parts of tables", done.KeptBlobs, done.KeptChunks))
	}
	lines = append(lines, "checked the rows of all tables against the backup")
	switch err := keepKey(in.keyFile, key); {
	case err != nil:
		return err
	case d.Engine() == db.SQLite:
		lines = append(lines, fmt.Sprintf("start the server with: stackyard serve --data %s", in.data))
	default:
		lines = append(lines, fmt.Sprintf("start the server with: STACKYARD_SECRET_KEY_FILE=%s stackyard serve --database …", in.keyFile))
	}
	return printLines(cmd.OutOrStdout(), lines...)
}

// keepKey writes the secret key to a file that does not exist yet.
func keepKey(path string, key *seal.Key) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil // installationOf has read it, and it is the right one
	}
	if err != nil {
		return fmt.Errorf("store the secret key: %w", err)
	}
	_, err = file.WriteString(key.Hex() + "\n")
	return errors.Join(err, file.Sync(), file.Close())
}

func backupPruneCommand() *cobra.Command {
	var keep int
	cmd := &cobra.Command{
		Use:   "prune PLACE --keep N",
		Short: "Delete old backups",
		Args:  cmdline.Exactly("PLACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if keep < 1 {
				return cmdline.Usage(errors.New("--keep: give how many of the newest backups to keep, at least 1"))
			}
			repository, err := openRepository(cmd, args[0], false)
			if err != nil {
				return err
			}
			snapshots, objects, err := repository.Prune(cmd.Context(), keep, time.Now())
			if err != nil {
				return err
			}
			return printLines(cmd.OutOrStdout(), fmt.Sprintf("deleted %d backups and %d objects", snapshots, objects))
		},
	}
	cmd.Flags().IntVar(&keep, "keep", 0, "how many of the newest backups to keep; required")
	addKeyFile(cmd)
	return cmd
}

func addKeyFile(cmd *cobra.Command) {
	cmd.Flags().String("key-file", "", "file with the key or passphrase that encrypts the backups, at least 16 bytes")
}

func addSnapshot(cmd *cobra.Command) {
	cmd.Flags().String("snapshot", "latest", "which backup, as shown by list")
}

func openRepository(cmd *cobra.Command, place string, create bool) (*backup.Repository, error) {
	var secret []byte
	if path := cmd.Flags().Lookup("key-file").Value.String(); path != "" {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, cmdline.Usage(fmt.Errorf("--key-file: %w", err))
		}
		secret = content
	}
	location, err := blob.ParseURL(place)
	if err != nil {
		return nil, cmdline.Usage(err)
	}
	if !create {
		if err := existingFolder(place); err != nil {
			return nil, fmt.Errorf("%s: %w", location, err)
		}
	}
	store, err := blob.Open(place)
	if err != nil {
		return nil, err
	}
	return backup.Open(cmd.Context(), store, secret, create)
}

// existingFolder returns an error for a folder that does not exist, which opening it would create.
func existingFolder(place string) error {
	location, err := blob.ParseURL(place)
	if err != nil || location.Folder() == "" {
		return err
	}
	_, err = os.Stat(location.Folder())
	return err
}

func openSnapshot(cmd *cobra.Command, place string) (*backup.Repository, *backup.Snapshot, error) {
	repository, err := openRepository(cmd, place, false)
	if err != nil {
		return nil, nil, err
	}
	s, err := repository.Snapshot(cmd.Context(), cmd.Flags().Lookup("snapshot").Value.String())
	return repository, s, err
}

func printLines(out io.Writer, lines ...string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

func megabytes(n int64) string {
	if n < 1<<20 {
		return strconv.FormatInt((n+1023)/1024, 10) + " kB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MB"
}
