package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
)

type job api.Job

// title returns the display name of a job.
func (j job) title() string { return firstLine(cmp.Or(j.Name, j.Label, j.Command, j.Type)) }

// fullTitle returns the display name with the number of a parallel job, unless the name has it.
func (j job) fullTitle() string {
	title := j.title()
	if j.ParallelIndex == nil || j.ParallelTotal == nil {
		return title
	}
	number := fmt.Sprintf("%d/%d", *j.ParallelIndex+1, *j.ParallelTotal)
	if strings.Contains(title, number) {
		return title
	}
	return title + " " + number
}

// failed reports whether the job fails its build.
func (j job) failed() bool {
	switch j.State {
	case "failed", "timed_out", "expired":
		return !j.SoftFailed
	}
	return false
}

func jobCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "job", Short: "Manage jobs"}
	cmd.AddCommand(jobListCommand(), jobViewCommand(), jobLogCommand(), jobExplainCommand(), jobRetryCommand(), jobUnblockCommand(), jobCancelCommand(), jobReprioritizeCommand(), jobSSHCommand(), jobTunnelCommand())
	return cmd
}

func jobListCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "list PIPELINE NUMBER",
		Short: "List jobs of a build",
		Args:  cmdline.Exactly("PIPELINE", "BUILD"),
	}, func(r *remote, args []string) error {
		b, err := call[build](r, get, nil, "/pipelines/%/builds/%", args...)
		if err != nil {
			return err
		}
		if r.json {
			return r.printJSON(b.Raw)
		}
		return printJobs(r, b.Value)
	})
}

func printJobs(r *remote, b build) error {
	jobs := b.listed()
	number := 0
	return printTable(r, api.List[job]{Items: jobs}, "The build has no jobs.",
		column[job]{"number", func(job) string { number++; return strconv.Itoa(number) }},
		column[job]{"state", job.stateNow},
		column[job]{"name", job.fullTitle},
		column[job]{"duration", func(j job) string {
			if j.StartedAt == nil {
				return ""
			}
			return duration(*j.StartedAt, j.FinishedAt, time.Now())
		}},
		column[job]{"id", func(j job) string { return j.ID }},
	)
}

func (j job) stateNow() string {
	switch {
	case j.SoftFailed:
		return j.State + " (soft)"
	case j.ExitStatus != nil && *j.ExitStatus != 0:
		return j.State + " (" + strconv.Itoa(*j.ExitStatus) + ")"
	}
	return j.State
}

func jobViewCommand() *cobra.Command {
	return onJob(addWebFlag(&cobra.Command{Use: "view", Short: "Show a job"}), func(r *remote, id string) error {
		j, err := call[job](r, get, nil, "/jobs/%", id)
		if err != nil {
			return err
		}
		took := ""
		if j.Value.StartedAt != nil {
			took = duration(*j.Value.StartedAt, j.Value.FinishedAt, time.Now())
		}
		return printItem(r, j.Raw,
			line{"Job", j.Value.fullTitle()},
			line{"State", j.Value.stateNow()},
			line{"Reason", j.Value.BrokenReason},
			line{"Command", j.Value.Command},
			line{"Started", r.when(j.Value.StartedAt)},
			line{"Finished", r.when(j.Value.FinishedAt)},
			line{"Duration", took},
			line{"Id", j.Value.ID},
		)
	})
}

func jobExplainCommand() *cobra.Command {
	return onJob(&cobra.Command{
		Use:   "explain",
		Short: "Explain why a job is waiting, broken or expired",
	}, func(r *remote, id string) error {
		why, err := call[struct{ Reason string }](r, get, nil, "/jobs/%/explain", id)
		if err != nil {
			return err
		}
		if r.json {
			return r.printJSON(why.Raw)
		}
		return r.println(plain(why.Value.Reason))
	})
}

func jobRetryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry",
		Short: "Retry a finished job",
		Example: `  stackyard job retry 0190c0de-0000-7000-8000-00000000000a
  stackyard job retry 0190c0de-0000-7000-8000-00000000000a --debug`,
	}
	debug := cmd.Flags().Bool("debug", false, "keep the environment for up to 30 minutes if the job fails, for stackyard job ssh")
	return onJob(cmd, func(r *remote, id string) error {
		var body any
		if *debug {
			body = map[string]any{"debug": true}
		}
		again, err := call[job](r, put, body, "/jobs/%/retry", id)
		if err != nil {
			return err
		}
		if *debug {
			return printItem(r, again.Raw, line{"New job", again.Value.ID}, line{"State", again.Value.State}, line{"Shell", "stackyard job ssh " + again.Value.ID})
		}
		return printItem(r, again.Raw, line{"New job", again.Value.ID}, line{"State", again.Value.State})
	})
}

func jobCancelCommand() *cobra.Command {
	return onJob(&cobra.Command{
		Use:   "cancel",
		Short: "Cancel a job",
	}, func(r *remote, id string) error {
		canceled, err := call[job](r, put, nil, "/jobs/%/cancel", id)
		if err != nil {
			return err
		}
		return printItem(r, canceled.Raw, line{"State", canceled.Value.State})
	})
}

func jobReprioritizeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "reprioritize",
		Short:   "Change the priority of a job that waits for an agent",
		Example: `  stackyard job reprioritize web 42 deploy --priority 10`,
	}
	priority := cmd.Flags().Int("priority", 0, "jobs with a higher priority run first")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("priority") {
			return cmdline.Usage(fmt.Errorf("--priority is required\nSee %s --help", cmd.CommandPath()))
		}
		return nil
	}
	return onJob(cmd, func(r *remote, id string) error {
		changed, err := call[job](r, put, map[string]int{"priority": *priority}, "/jobs/%/reprioritize", id)
		if err != nil {
			return err
		}
		return printItem(r, changed.Raw, line{"Priority", strconv.Itoa(*priority)}, line{"State", changed.Value.State})
	})
}
