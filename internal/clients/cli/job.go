package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/client"
	"stackyard/internal/clients/cmdline"
)

type job struct {
	ID, Type, Name, Label, Command, State string
	ExitStatus                            *int       `json:"exit_status"`
	SoftFailed                            bool       `json:"soft_failed"`
	StepKey                               string     `json:"step_key"`
	GroupKey                              string     `json:"group_key"`
	BrokenReason                          string     `json:"broken_reason"`
	Retried                               bool       `json:"retried"`
	StartedAt                             *time.Time `json:"started_at"`
	FinishedAt                            *time.Time `json:"finished_at"`
	ParallelIndex                         *int       `json:"parallel_group_index"`
	ParallelTotal                         *int       `json:"parallel_group_total"`
}

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
	cmd.AddCommand(jobListCommand(), jobLogCommand(), jobExplainCommand(), jobRetryCommand(), jobUnblockCommand(), jobCancelCommand(), jobSSHCommand(), jobTunnelCommand())
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
		return printJobs(r, client.List[job]{Items: b.Value.Jobs})
	})
}

func printJobs(r *remote, list client.List[job]) error {
	return printTable(r, list, "The build has no jobs.",
		column[job]{"id", func(j job) string { return j.ID }},
		column[job]{"state", job.stateNow},
		column[job]{"name", job.fullTitle},
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

func jobExplainCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "explain JOB",
		Short: "Explain why a job is waiting, broken or expired",
		Args:  cmdline.Exactly("JOB"),
	}, func(r *remote, args []string) error {
		why, err := call[struct{ Reason string }](r, get, nil, "/jobs/%/explain", args[0])
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
		Use:   "retry JOB",
		Short: "Retry a finished job",
		Example: `  stackyard job retry 0190c0de-0000-7000-8000-00000000000a
  stackyard job retry 0190c0de-0000-7000-8000-00000000000a --debug`,
		Args: cmdline.Exactly("JOB"),
	}
	debug := cmd.Flags().Bool("debug", false, "keep the environment for up to 30 minutes if the job fails, for stackyard job ssh")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		var body any
		if *debug {
			body = map[string]any{"debug": true}
		}
		again, err := call[job](r, put, body, "/jobs/%/retry", args[0])
		if err != nil {
			return err
		}
		if *debug {
			return printItem(r, again.Raw, line{"New job", again.Value.ID}, line{"State", again.Value.State}, line{"Shell", "stackyard job ssh " + again.Value.ID})
		}
		return printItem(r, again.Raw, line{"New job", again.Value.ID}, line{"State", again.Value.State})
	})
}

func jobUnblockCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unblock JOB",
		Short: "Unblock a blocked job",
		Args:  cmdline.Exactly("JOB"),
	}
	fields := cmd.Flags().StringArray("field", nil, "field value as KEY=VALUE, repeatable")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		values, err := cmdline.Pairs("field", *fields)
		if err != nil {
			return err
		}
		unblocked, err := call[job](r, put, map[string]any{"fields": values}, "/jobs/%/unblock", args[0])
		if err != nil {
			return err
		}
		return printItem(r, unblocked.Raw, line{"State", unblocked.Value.State})
	})
}

func jobCancelCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "cancel JOB",
		Short: "Cancel a job",
		Args:  cmdline.Exactly("JOB"),
	}, func(r *remote, args []string) error {
		canceled, err := call[job](r, put, nil, "/jobs/%/cancel", args[0])
		if err != nil {
			return err
		}
		return printItem(r, canceled.Raw, line{"State", canceled.Value.State})
	})
}
