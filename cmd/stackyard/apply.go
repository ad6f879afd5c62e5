package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"stackyard/internal/app/server"
)

func applyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Apply an organization file",
		Long: `Apply an organization file: organizations with their members, tokens, teams,
clusters, queues, applications and pipelines, as YAML.

Applying is idempotent: what is there already is left as it is, what the file
does not name is left alone. One line is printed for each thing created or
changed, and each generated token once, as "token KIND NAME VALUE". A server that
runs on the same data notices within a second.`,
		Example: `  stackyard apply -f organizations.yaml --data /var/lib/stackyard`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			path := cmd.Flags().Lookup("file").Value.String()
			values, gathered := gather(cmd, storageSettings())
			// Settings of serve alone have their defaults here.
			for _, s := range serverSettings {
				if _, ok := values[s.flag]; !ok {
					values[s.flag] = s.unset
				}
			}
			settings, parsed := server.ParseSettings(func(flag string) string { return values[flag] })
			log, logged := server.NewLogger(logFormat(""))
			source, read := readFile(path)
			if err := errors.Join(gathered, parsed, logged, read); err != nil {
				return refuse(err)
			}
			storage, err := server.OpenStorage(cmd.Context(), settings, log)
			if err != nil {
				return fmt.Errorf("open the installation: %w", err)
			}
			defer func() { err = errors.Join(err, storage.DB.Close()) }()
			return applyFile(cmd.Context(), storage, path, source, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringP("file", "f", "", "the organization file; required")
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
