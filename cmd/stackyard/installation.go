package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
)

// installationSettings locate the data of an installation.
func installationSettings() []cmdline.Setting {
	names := []string{"data", "database", "blobs", "secret-key"}
	return slices.DeleteFunc(slices.Clone(serverSettings), func(s cmdline.Setting) bool { return !slices.Contains(names, s.Flag) })
}

// An installation is where a server keeps its data. Nothing of it is open.
type installation struct {
	data     string
	database string // for db.Open
	blobs    string // for blob.Open
	key      *seal.Key
	// keyFile is the file of a generated key; it need not exist.
	keyFile string
}

// installationOf reads the settings of a command that works on an installation without a server.
func installationOf(cmd *cobra.Command) (installation, error) {
	values, err := gather(cmd, installationSettings())
	if err != nil {
		return installation{}, cmdline.Usage(err)
	}
	in := installation{data: values["data"], keyFile: filepath.Join(values["data"], "secret.key")}
	in.database = cmp.Or(values["database"], "sqlite:"+filepath.Join(in.data, "stackyard.db"))
	in.blobs = cmp.Or(values["blobs"], filepath.Join(in.data, "blobs"))
	if _, err := blob.ParseURL(in.blobs); err != nil {
		return in, cmdline.Usage(fmt.Errorf("--blobs: %w", err))
	}
	text := values["secret-key"]
	if text == "" {
		content, err := os.ReadFile(in.keyFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return in, err
		}
		text = string(content)
	}
	if text == "" {
		return in, nil
	}
	key, err := seal.ParseKey(text)
	if err != nil {
		return in, cmdline.Usage(fmt.Errorf("--secret-key: %w", err))
	}
	in.key = &key
	return in, nil
}

// openDatabase opens an existing database, without migrating it.
func openDatabase(ctx context.Context, url string) (*db.DB, error) {
	if path, ok := sqlitePath(url); ok {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("there is no database: %w", err)
		}
	}
	return db.Open(ctx, url, quietLog())
}

// sqlitePath returns the file of a SQLite URL.
func sqlitePath(url string) (string, bool) {
	if strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://") {
		return "", false
	}
	return strings.TrimPrefix(url, "sqlite:"), true
}

// quietLog logs warnings only, for commands whose output is for people.
func quietLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
