package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
)

type pipeline = api.Pipeline

func pipelineCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "pipeline", Short: "Manage pipelines"}
	cmd.AddCommand(pipelineListCommand(), pipelineViewCommand(), pipelineCreateCommand(), pipelineEditCommand(),
		pipelineArchiveCommand(), pipelineUnarchiveCommand(), pipelineDeleteCommand())
	return cmd
}

func pipelineListCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "list",
		Short: "List pipelines",
	}, func(r *remote, _ []string) error {
		list, err := listUnder[pipeline](r, "/pipelines")
		if err != nil {
			return err
		}
		return printTable(r, list, "There are no pipelines.",
			column[pipeline]{"slug", func(p pipeline) string { return p.Slug }},
			column[pipeline]{"name", func(p pipeline) string { return p.Name }},
			column[pipeline]{"running", func(p pipeline) string { return strconv.Itoa(p.RunningBuilds) }},
			column[pipeline]{"scheduled", func(p pipeline) string { return strconv.Itoa(p.ScheduledBuilds) }},
			column[pipeline]{"repository", func(p pipeline) string { return p.Repository }},
		)
	})
}

func pipelineViewCommand() *cobra.Command {
	return remoteCommand(addWebFlag(&cobra.Command{
		Use:     "view SLUG",
		Aliases: []string{"show"},
		Short:   "Show a pipeline",
		Args:    cmdline.Exactly("PIPELINE"),
	}), func(r *remote, args []string) error {
		p, err := call[pipeline](r, get, nil, "/pipelines/%", args[0])
		if err != nil {
			return err
		}
		archived := ""
		if p.Value.ArchivedAt != nil {
			archived = "since " + r.when(p.Value.ArchivedAt)
		}
		err = printItem(r, p.Raw,
			line{"Name", p.Value.Name},
			line{"Description", p.Value.Description},
			line{"Repository", p.Value.Repository},
			line{"Default branch", p.Value.DefaultBranch},
			line{"Visibility", p.Value.Visibility},
			line{"Archived", archived},
			line{"Page", p.Value.WebURL},
		)
		if err != nil || r.json || r.web || p.Value.Configuration == "" {
			return err
		}
		_, err = fmt.Fprintf(r.out, "\n%s\n", p.Value.Configuration)
		return err
	})
}

// definitionFile reads a pipeline definition from a file or from standard input.
func definitionFile(cmd *cobra.Command, path string) (string, error) {
	if path == "-" {
		text, err := io.ReadAll(cmd.InOrStdin())
		return string(text), err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("--file: %w", err)
	}
	return string(text), nil
}

func pipelineEditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "edit SLUG",
		Aliases: []string{"update"},
		Short:   "Change the given attributes of a pipeline",
		Args:    cmdline.Exactly("PIPELINE"),
	}
	cmd.Flags().String("name", "", "name")
	cmd.Flags().String("repository", "", "URL of the source repository")
	cmd.Flags().String("description", "", "description")
	cmd.Flags().String("default-branch", "", "default branch")
	file := cmd.Flags().String("file", "", "YAML definition, - for standard input")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		body := map[string]string{}
		for flag, field := range map[string]string{"name": "name", "repository": "repository", "description": "description", "default-branch": "default_branch"} {
			if f := cmd.Flags().Lookup(flag); f.Changed {
				body[field] = f.Value.String()
			}
		}
		if *file != "" {
			configuration, err := definitionFile(cmd, *file)
			if err != nil {
				return err
			}
			body["configuration"] = configuration
		}
		if len(body) == 0 {
			return cmdline.Usage(fmt.Errorf("nothing to change\nSee %s --help", cmd.CommandPath()))
		}
		changed, err := call[pipeline](r, patch, body, "/pipelines/%", args[0])
		if err != nil {
			return err
		}
		return printItem(r, changed.Raw, line{"Changed", changed.Value.Slug}, line{"Page", changed.Value.WebURL})
	})
}

func pipelineArchiveCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "archive SLUG",
		Short: "Archive a pipeline: read-only, no new builds",
		Args:  cmdline.Exactly("PIPELINE"),
	}, func(r *remote, args []string) error {
		return r.perform(post, nil, "Archived "+args[0]+".", "/pipelines/%/archive", args[0])
	})
}

func pipelineUnarchiveCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "unarchive SLUG",
		Short: "Unarchive a pipeline",
		Args:  cmdline.Exactly("PIPELINE"),
	}, func(r *remote, args []string) error {
		return r.perform(post, nil, args[0]+" is back.", "/pipelines/%/unarchive", args[0])
	})
}

func pipelineDeleteCommand() *cobra.Command {
	return remoteCommand(addYesFlag(&cobra.Command{
		Use:   "delete SLUG",
		Short: "Delete a pipeline and all its builds",
		Args:  cmdline.Exactly("PIPELINE"),
	}), func(r *remote, args []string) error {
		if _, err := call[pipeline](r, get, nil, "/pipelines/%", args[0]); err != nil {
			return err
		}
		if err := r.confirm("Delete the pipeline " + args[0] + " and all its builds"); err != nil {
			return err
		}
		return r.perform(remove, nil, "Deleted "+args[0]+".", "/pipelines/%", args[0])
	})
}
