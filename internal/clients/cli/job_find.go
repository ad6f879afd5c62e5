package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
)

// jobArguments allows the ways to name a job: its id, or its pipeline, build, and label or number.
func jobArguments(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 1, 3:
		return nil
	case 0:
		return cmdline.Exactly("JOB")(cmd, args)
	case 2:
		return cmdline.Exactly("PIPELINE", "BUILD", "JOB")(cmd, args)
	}
	return cmdline.AtMost("PIPELINE", "BUILD", "JOB")(cmd, args)
}

// jobUse describes the arguments of a command for a job.
const jobUse = "JOB | PIPELINE NUMBER JOB"

// jobHelp describes how jobs are named.
const jobHelp = `

JOB is the id of a job, or after a pipeline and a build number its label, the key of its
step, or its number in stackyard job list.`

// onJob makes a command act on the job that its arguments name.
func onJob(cmd *cobra.Command, act func(r *remote, id string) error) *cobra.Command {
	cmd.Use += " " + jobUse
	if cmd.Long == "" {
		cmd.Long = cmd.Short + "."
	}
	cmd.Long += jobHelp
	cmd.Args = jobArguments
	return remoteCommand(cmd, func(r *remote, args []string) error {
		id, err := findJob(r, args)
		if err != nil {
			return err
		}
		return act(r, id)
	})
}

// findJob returns the id of the job that arguments name.
func findJob(r *remote, args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	b, err := call[build](r, get, nil, "/pipelines/%/builds/%", args[0], args[1])
	if err != nil {
		return "", err
	}
	j, err := b.Value.job(args[2])
	return j.ID, err
}

// job returns the job with a label, a step key, an id, or a number in the list of jobs.
func (b build) job(name string) (job, error) {
	jobs := b.listed()
	var found []int
	var known []string
	for i, j := range jobs {
		names := []string{j.ID, j.title(), j.fullTitle(), j.Label, j.StepKey}
		known = append(known, j.fullTitle())
		if slices.ContainsFunc(names, func(n string) bool { return n != "" && strings.EqualFold(n, name) }) {
			found = append(found, i)
		}
	}
	if n, err := strconv.Atoi(name); err == nil && len(found) == 0 && n >= 1 && n <= len(jobs) {
		found = []int{n - 1}
	}
	switch len(found) {
	case 1:
		return jobs[found[0]], nil
	case 0:
		where := fmt.Sprintf("stackyard job list %s %d", b.Pipeline.Slug, b.Number)
		return job{}, fmt.Errorf("build %d has no job %q; %s", b.Number, name, elsewhere(name, known, where))
	}
	var choices []string
	for _, i := range found {
		choices = append(choices, fmt.Sprintf("%d (%s, %s)", i+1, jobs[i].fullTitle(), jobs[i].State))
	}
	return job{}, fmt.Errorf("%d jobs are called %q; use the number of one: %s", len(found), name, strings.Join(choices, ", "))
}

// listed returns the jobs that lists show, in their order: all but waiters.
func (b build) listed() []job {
	return slices.DeleteFunc(slices.Clone(b.Jobs), func(j job) bool { return j.Type == "waiter" })
}
