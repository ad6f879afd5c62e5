package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"stackyard/internal/app/doctor"
	"stackyard/internal/clients/cmdline"
	"stackyard/internal/domain/reconcile"
	"stackyard/internal/platform/blob"
)

func doctorCommand() *cobra.Command {
	var asJSON, removeOrphans bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check an installation and say what to do",
		Long: `Check an installation: settings, permissions, disks, certificates, database, secret
key, clocks, background tasks, logs and artifacts, and whether the server answers at
the URL that agents use. Give the settings of the server, and run it as its user.

The exit status is 0 without problems, even if there are warnings, and 1 otherwise.`,
		Example: `  stackyard doctor --config /etc/stackyard/stackyard.yaml
  stackyard doctor --json | jq '.[] | select(.level == "problem")'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			values, gathered := gather(cmd, serverSettings)
			settings, parsed := parse(values)
			config := doctor.Config{Settings: settings, SettingsError: errors.Join(gathered, parsed), Version: cmdline.Version, Now: time.Now()}
			if removeOrphans {
				return removeOrphanedBlobs(cmd, config)
			}
			findings := doctor.Run(cmd.Context(), config)
			if err := printFindings(cmd.OutOrStdout(), findings, asJSON); err != nil {
				return err
			}
			for _, f := range findings {
				if f.Level == doctor.Problem {
					return &cmdline.StatusError{Status: 1} // the findings say why
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	cmd.Flags().BoolVar(&removeOrphans, "remove-orphans", false, "check nothing, but delete logs and artifacts of builds that no longer exist")
	addSettings(cmd, serverSettings)
	return cmd
}

func removeOrphanedBlobs(cmd *cobra.Command, config doctor.Config) error {
	if config.SettingsError != nil {
		return cmdline.Usage(config.SettingsError)
	}
	d, err := openDatabase(cmd.Context(), config.Settings.Database)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := complete(cmd.Context(), d); err != nil {
		return err
	}
	store, err := blob.Open(config.Settings.Blobs)
	if err != nil {
		return fmt.Errorf("--blobs: %w", err)
	}
	removed, err := reconcile.RemoveOrphans(cmd.Context(), d, store, config.Now)
	if err != nil {
		return err
	}
	return printLines(cmd.OutOrStdout(), fmt.Sprintf("removed %d of %d blobs, %s", removed.Objects, removed.Checked, megabytes(removed.Bytes)))
}

func printFindings(out io.Writer, findings []doctor.Finding, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(findings)
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(out, "%-8s %-13s %s\n", f.Level, f.Check, f.Message); err != nil {
			return err
		}
		if f.Advice != "" {
			if _, err := fmt.Fprintf(out, "%-22s → %s\n", "", f.Advice); err != nil {
				return err
			}
		}
	}
	return nil
}
