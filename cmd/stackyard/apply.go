package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"stackyard/internal/app/server"
	"stackyard/internal/clients/cmdline"
)

func applyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Apply an organization file",
		Long: `Apply an organization file: organizations with their members, tokens, teams,
clusters, queues, applications and pipelines, as YAML.

Applying is idempotent, and does not change what the file does not mention. The
command prints one line for each created or changed object, and each generated
token once, as "token KIND NAME VALUE". A running server on the same data notices
the changes within a second.`,
		Example: `  stackyard apply -f organizations.yaml --data /var/lib/stackyard`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			path := cmd.Flags().Lookup("file").Value.String()
			values, gathered := gather(cmd, storageSettings())
			// Settings that only serve has get their defaults.
			for _, s := range serverSettings {
				if _, ok := values[s.Flag]; !ok {
					values[s.Flag] = s.Unset
				}
			}
			settings, parsed := server.ParseSettings(func(flag string) string { return values[flag] })
			log, logged := cmdline.NewLogger("", "")
			source, read := readFile(path)
			if err := errors.Join(gathered, parsed, logged, read); err != nil {
				return cmdline.Usage(err)
			}
			storage, err := server.OpenStorage(cmd.Context(), settings, log)
			if err != nil {
				return fmt.Errorf("open the installation: %w", err)
			}
			defer func() { err = errors.Join(err, storage.DB.Close()) }()
			return applyFile(cmd.Context(), storage, path, source, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringP("file", "f", "", "organization file; required")
	addSettings(cmd, storageSettings())
	return cmd
}

func readFile(path string) ([]byte, error) {
	if path == "" {
		return nil, errors.New("--file: name an organization file")
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	return source, nil
}
