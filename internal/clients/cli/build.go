package cli

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
)

type build struct {
	api.Build
	Jobs []job `json:"jobs"`
}

func buildCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "build", Short: "Manage builds"}
	cmd.AddCommand(buildCreateCommand(), buildListCommand(), buildViewCommand(), buildWatchCommand(),
		buildCancelCommand(), buildRebuildCommand(), buildRetryCommand())
	return cmd
}

func buildCreateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "create PIPELINE",
		Short:   "Create a build",
		Example: `  stackyard build create hello --branch main --message "Try it" --watch`,
		Args:    cmdline.Exactly("PIPELINE"),
	}
	branch := cmd.Flags().String("branch", "", "branch (default: the pipeline's)")
	commit := cmd.Flags().String("commit", "HEAD", "commit")
	message := cmd.Flags().String("message", "", "message")
	env := cmd.Flags().StringArray("env", nil, "variable as KEY=VALUE, repeatable")
	metaData := cmd.Flags().StringArray("meta-data", nil, "meta-data as KEY=VALUE, repeatable")
	watch := cmd.Flags().Bool("watch", false, "watch the build; exit status 1 unless it passes")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		variables, err := cmdline.Pairs("env", *env)
		if err != nil {
			return err
		}
		values, err := cmdline.Pairs("meta-data", *metaData)
		if err != nil {
			return err
		}
		if *branch == "" {
			p, err := call[pipeline](r, get, nil, "/pipelines/%", args[0])
			if err != nil {
				return err
			}
			*branch = p.Value.DefaultBranch
		}
		made, err := call[build](r, post, map[string]any{
			"branch": *branch, "commit": *commit, "message": *message, "env": variables, "meta_data": values,
		}, "/pipelines/%/builds", args[0])
		if err != nil {
			return err
		}
		if *watch && !r.json {
			if err := r.println(fmt.Sprintf("Build %d: %s", made.Value.Number, made.Value.WebURL)); err != nil {
				return err
			}
			return watchBuild(r, args[0], strconv.Itoa(made.Value.Number))
		}
		return printItem(r, made.Raw, line{"Created", fmt.Sprintf("build %d", made.Value.Number)}, line{"Page", made.Value.WebURL})
	})
}

func buildListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [PIPELINE]",
		Short: "List builds, newest first",
		Args:  cmdline.AtMost("pipeline"),
	}
	state := cmd.Flags().String("state", "", "only builds in this state, such as running or failed")
	branch := cmd.Flags().String("branch", "", "only builds of this branch")
	limit := cmd.Flags().Int("limit", 30, "maximum number of builds")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		query := url.Values{}
		if *state != "" {
			query.Set("state", *state)
		}
		if *branch != "" {
			query.Set("branch", *branch)
		}
		query.Set("exclude_jobs", "true")
		format := "/builds?"
		if len(args) > 0 {
			format = "/pipelines/%/builds?"
		}
		list, err := listMost[build](r, *limit, format+query.Encode(), args...)
		if err != nil {
			return err
		}
		return printBuilds(r, list)
	})
}

func printBuilds(r *remote, list api.List[build]) error {
	return printTable(r, list, "There are no such builds.",
		column[build]{"pipeline", func(b build) string { return b.Pipeline.Slug }},
		column[build]{"number", func(b build) string { return strconv.Itoa(b.Number) }},
		column[build]{"state", build.stateNow},
		column[build]{"branch", func(b build) string { return b.Branch }},
		column[build]{"created", func(b build) string { return r.when(b.CreatedAt) }},
		column[build]{"message", func(b build) string { return firstLine(b.Message) }},
	)
}

func (b build) stateNow() string {
	if b.Blocked {
		return "blocked (" + b.State + ")"
	}
	return b.State
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

func buildViewCommand() *cobra.Command {
	return remoteCommand(addWebFlag(&cobra.Command{
		Use:     "view PIPELINE NUMBER",
		Aliases: []string{"show"},
		Short:   "Show a build and its jobs",
		Args:    cmdline.Exactly("PIPELINE", "BUILD"),
	}), func(r *remote, args []string) error {
		b, err := call[build](r, get, nil, "/pipelines/%/builds/%", args...)
		if err != nil {
			return err
		}
		err = printItem(r, b.Raw,
			line{"Build", fmt.Sprintf("%s %d", args[0], b.Value.Number)},
			line{"State", b.Value.stateNow()},
			line{"Branch", b.Value.Branch},
			line{"Commit", b.Value.Commit},
			line{"Message", firstLine(b.Value.Message)},
			line{"Created", r.when(b.Value.CreatedAt)},
			line{"Finished", r.when(b.Value.FinishedAt)},
			line{"Page", b.Value.WebURL},
		)
		if err != nil || r.json || r.web {
			return err
		}
		fmt.Fprintln(r.out)
		return printJobs(r, b.Value)
	})
}

func buildWatchCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "watch PIPELINE NUMBER",
		Short: "Watch a build until it ends; exit status 1 unless it passes",
		Long: `Watch a build until it ends. On a terminal, the command shows its jobs with their
durations; elsewhere it prints a line for each change. It says how to unblock a
blocked build, and prints the end of the log of each failed job.

The exit status is 0 if the build passes, else 1. Ctrl-C stops watching, not the
build.`,
		Example: `  stackyard build watch web 42`,
		Args:    cmdline.Exactly("PIPELINE", "BUILD"),
	}, func(r *remote, args []string) error { return watchBuild(r, args[0], args[1]) })
}

func buildCancelCommand() *cobra.Command {
	return buildActionCommand("cancel", "Cancel a build", "cancel", func(b build) []line {
		return []line{{"State", b.State}}
	})
}

func buildRebuildCommand() *cobra.Command {
	return buildActionCommand("rebuild", "Rebuild: start the same build again", "rebuild", func(b build) []line {
		return []line{{"Created", fmt.Sprintf("build %d", b.Number)}, {"Page", b.WebURL}}
	})
}

func buildRetryCommand() *cobra.Command {
	return buildActionCommand("retry", "Retry the failed jobs of a build", "retry_failed_jobs", func(b build) []line {
		return []line{{"State", b.stateNow()}, {"Page", b.WebURL}}
	})
}

// buildActionCommand returns a command that requests an action of a build and prints lines of the resulting build.
func buildActionCommand(verb, short, action string, lines func(build) []line) *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   verb + " PIPELINE NUMBER",
		Short: short,
		Args:  cmdline.Exactly("PIPELINE", "BUILD"),
	}, func(r *remote, args []string) error {
		b, err := call[build](r, put, nil, "/pipelines/%/builds/%/"+action, args...)
		if err != nil {
			return err
		}
		return printItem(r, b.Raw, lines(b.Value)...)
	})
}
