package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
)

type schedule api.Schedule

func (s schedule) state() string {
	switch {
	case !s.Enabled && s.FailedAt != nil:
		return "disabled after failures"
	case !s.Enabled:
		return "disabled"
	case s.FailedAt != nil:
		return "failing"
	}
	return "enabled"
}

// name returns what people call the schedule.
func (s schedule) name() string {
	if s.Label != "" {
		return s.Label
	}
	return s.ID
}

func scheduleCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "schedule", Short: "Manage schedules of a pipeline"}
	cmd.AddCommand(scheduleListCommand(), scheduleViewCommand(), scheduleCreateCommand(), scheduleEditCommand(), scheduleDeleteCommand())
	return cmd
}

func scheduleListCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "list PIPELINE",
		Short: "List the schedules of a pipeline",
		Args:  cmdline.Exactly("PIPELINE"),
	}, func(r *remote, args []string) error {
		list, err := listUnder[schedule](r, "/pipelines/%/schedules", args[0])
		if err != nil {
			return err
		}
		return printTable(r, list, "The pipeline has no schedules.",
			column[schedule]{"label", func(s schedule) string { return s.Label }},
			column[schedule]{"cronline", func(s schedule) string { return s.Cronline }},
			column[schedule]{"state", schedule.state},
			column[schedule]{"next build", func(s schedule) string { return r.when(s.NextBuildAt) }},
			column[schedule]{"id", func(s schedule) string { return s.ID }},
		)
	})
}

// findSchedule finds a schedule of a pipeline by id or label.
func findSchedule(r *remote, pipeline, named string) (schedule, error) {
	list, err := listUnder[schedule](r, "/pipelines/%/schedules", pipeline)
	if err != nil {
		return schedule{}, err
	}
	var found []schedule
	for _, s := range list.Items {
		if s.ID == named {
			return s, nil
		}
		if strings.EqualFold(s.Label, named) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return schedule{}, fmt.Errorf("the pipeline %s has no schedule %q; see stackyard schedule list %s", pipeline, named, pipeline)
	}
	return schedule{}, fmt.Errorf("%d schedules have the label %q; give the id of one, see stackyard schedule list %s", len(found), named, pipeline)
}

func scheduleViewCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:     "view PIPELINE SCHEDULE",
		Aliases: []string{"show"},
		Short:   "Show a schedule and its next ten times",
		Long:    "Show a schedule, found by its label or id, and its next ten times.",
		Args:    cmdline.Exactly("PIPELINE", "SCHEDULE"),
	}, func(r *remote, args []string) error {
		s, err := findSchedule(r, args[0], args[1])
		if err != nil {
			return err
		}
		shown, err := call[schedule](r, get, nil, "/pipelines/%/schedules/%", args[0], s.ID)
		if err != nil {
			return err
		}
		preview, err := call[struct{ Runs []time.Time }](r, get, nil, "/pipelines/%/schedules/%/preview", args[0], s.ID)
		if err != nil {
			return err
		}
		return printItem(r, shown.Raw, append(scheduleLines(r, shown.Value), upcoming(r, shown.Value, preview.Value.Runs)...)...)
	})
}

func scheduleLines(r *remote, s schedule) []line {
	lines := []line{
		{"Label", s.Label},
		{"Cronline", s.Cronline},
		{"State", s.state()},
		{"Failed", r.when(s.FailedAt)},
		{"Reason", s.FailedMessage},
		{"Branch", s.Branch},
		{"Commit", s.Commit},
		{"Message", s.Message},
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		lines = append(lines, line{"Variable", name + "=" + s.Env[name]})
	}
	return append(lines, line{"Id", s.ID})
}

// upcoming returns a line for each of the next times.
func upcoming(r *remote, s schedule, runs []time.Time) (lines []line) {
	if !s.Enabled {
		return nil
	}
	for _, at := range runs {
		lines = append(lines, line{"Builds at", r.when(&at)})
	}
	return lines
}

// scheduleFlags adds the flags of the attributes, and returns a function that returns the fields that were given.
func scheduleFlags(cmd *cobra.Command) func() (map[string]any, error) {
	flags := cmd.Flags()
	flags.String("label", "", "label")
	flags.String("message", "", "message of the builds (default: of the commit)")
	flags.String("commit", "", "commit (default: HEAD)")
	flags.String("branch", "", "branch (default: the pipeline's default branch)")
	env := flags.StringArray("env", nil, "variable of the builds as KEY=VALUE, repeatable; replaces all that the schedule had")
	enabled := flags.Bool("enabled", true, "whether the schedule builds")
	return func() (map[string]any, error) {
		body := map[string]any{}
		for _, name := range []string{"label", "message", "commit", "branch", "cronline"} {
			if f := flags.Lookup(name); f != nil && f.Changed {
				body[name] = f.Value.String()
			}
		}
		if flags.Changed("env") {
			variables, err := cmdline.Pairs("env", *env)
			if err != nil {
				return nil, err
			}
			body["env"] = variables
		}
		if flags.Changed("enabled") {
			body["enabled"] = *enabled
		}
		return body, nil
	}
}

func scheduleCreateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "create PIPELINE CRONLINE",
		Short:   "Create a schedule",
		Example: `  stackyard schedule create web "0 9 * * MON-FRI Europe/Berlin" --label Morning --env FULL=yes`,
		Args:    cmdline.Exactly("PIPELINE", "CRONLINE"),
	}
	fields := scheduleFlags(cmd)
	return remoteCommand(cmd, func(r *remote, args []string) error {
		body, err := fields()
		if err != nil {
			return err
		}
		body["cronline"] = args[1]
		made, err := call[schedule](r, post, body, "/pipelines/%/schedules", args[0])
		if err != nil {
			return err
		}
		return printItem(r, made.Raw, line{"Created", made.Value.name()}, line{"Next build", r.when(made.Value.NextBuildAt)}, line{"Id", made.Value.ID})
	})
}

func scheduleEditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "edit PIPELINE SCHEDULE",
		Aliases: []string{"update"},
		Short:   "Change the given attributes of a schedule",
		Long:    "Change the given attributes of a schedule, found by its label or id.",
		Example: `  stackyard schedule edit web Morning --enabled=false
  stackyard schedule edit web Morning --cronline "0 8 * * *"`,
		Args: cmdline.Exactly("PIPELINE", "SCHEDULE"),
	}
	cmd.Flags().String("cronline", "", "when to build")
	fields := scheduleFlags(cmd)
	return remoteCommand(cmd, func(r *remote, args []string) error {
		body, err := fields()
		if err != nil {
			return err
		}
		if len(body) == 0 {
			return cmdline.Usage(fmt.Errorf("nothing to change\nSee %s --help", cmd.CommandPath()))
		}
		s, err := findSchedule(r, args[0], args[1])
		if err != nil {
			return err
		}
		changed, err := call[schedule](r, patch, body, "/pipelines/%/schedules/%", args[0], s.ID)
		if err != nil {
			return err
		}
		return printItem(r, changed.Raw, line{"Changed", changed.Value.name()}, line{"State", changed.Value.state()}, line{"Next build", r.when(changed.Value.NextBuildAt)})
	})
}

func scheduleDeleteCommand() *cobra.Command {
	return remoteCommand(addYesFlag(&cobra.Command{
		Use:   "delete PIPELINE SCHEDULE",
		Short: "Delete a schedule",
		Args:  cmdline.Exactly("PIPELINE", "SCHEDULE"),
	}), func(r *remote, args []string) error {
		s, err := findSchedule(r, args[0], args[1])
		if err != nil {
			return err
		}
		if err := r.confirm("Delete the schedule " + s.name()); err != nil {
			return err
		}
		return r.perform(remove, nil, "Deleted the schedule "+s.name()+".", "/pipelines/%/schedules/%", args[0], s.ID)
	})
}
