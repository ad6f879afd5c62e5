package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"stackyard/internal/app/server"
	"stackyard/internal/clients/cmdline"
	"stackyard/internal/platform/core"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server: web pages, REST, agents, stacks and OAuth on one port.

Settings come from flags, then environment variables, then the file of --config,
then defaults. Secret settings can also be read from a file, with the suffix _FILE:
for example STACKYARD_SECRET_KEY_FILE.

The server prints "listening on URL" when it is ready. After SIGTERM it finishes
requests and exits within ten seconds; jobs of hosted agents on it and open shells
have longer (--hosted-grace, --session-grace).`,
		Example: `  stackyard serve --data /var/lib/stackyard --public-url https://ci.example.com
  STACKYARD_DATABASE=postgres://ci@db/ci STACKYARD_SECRET_KEY_FILE=/run/key stackyard serve`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmdline.HideArguments(cmd, serverSettings); err != nil {
				return err
			}
			settings, log, err := serverSettingsOf(cmd, serverSettings)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), settings, log, cmd.OutOrStdout(), nil, func(server.Ready) error { return nil })
		},
	}
	addSettings(cmd, serverSettings)
	return cmd
}

func serverSettingsOf(cmd *cobra.Command, from []cmdline.Setting) (server.Settings, *slog.Logger, error) {
	values, gathered := gather(cmd, from)
	settings, parsed := parse(values)
	log, logged := cmdline.NewLogger(values["log-format"], values["log-level"])
	return settings, log, cmdline.Usage(errors.Join(gathered, parsed, logged))
}

// machineClock is the clock of this machine, which tests make wrong.
var machineClock core.Clock = core.SystemClock

// serve opens storage, prepares it, and serves until ctx is done. It calls welcome when the server accepts
// requests, right after the ready line.
func serve(ctx context.Context, s server.Settings, log *slog.Logger, out io.Writer, prepare func(server.Storage) error, welcome func(server.Ready) error) (err error) {
	storage, err := server.OpenServerStorage(ctx, s, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, storage.DB.Close()) }()
	if s.Apply != "" {
		source, err := os.ReadFile(s.Apply)
		if err != nil {
			return cmdline.Usage(err)
		}
		if err := applyFile(ctx, storage, s.Apply, source, out); err != nil {
			return err
		}
	}
	if prepare != nil {
		if err := prepare(storage); err != nil {
			return err
		}
	}
	if s.Apply != "" || prepare != nil {
		// Hashing passwords used tens of megabytes that serving does not need.
		debug.FreeOSMemory()
	}
	s.Clock = machineClock
	return server.Run(ctx, s, storage, version, log, func(r server.Ready) error {
		if _, err := fmt.Fprintf(out, "listening on %s\n", r.URL); err != nil {
			return err
		}
		if r.FirstLink != "" {
			if _, err := fmt.Fprintf(out, "No user has a password yet. To sign in as %s for the first time, open this within an hour:\n  %s\n", r.FirstEmail, r.FirstLink); err != nil {
				return err
			}
		}
		return welcome(r)
	})
}

// applyFile applies an organization file. Errors in the file are usage errors.
func applyFile(ctx context.Context, st server.Storage, path string, source []byte, out io.Writer) error {
	err := server.Apply(ctx, st, path, source, out)
	if _, ok := errors.AsType[core.Complaints](err); ok {
		return cmdline.Usage(err)
	}
	return err
}
