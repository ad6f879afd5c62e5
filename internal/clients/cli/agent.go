package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
)

type agentRecord struct {
	api.Agent
	Job *job `json:"job"`
}

// stateNow describes what the agent is doing.
func (a agentRecord) stateNow() string {
	state := a.State
	if a.Paused {
		state += ", paused"
	}
	if a.Job != nil {
		state += ", busy"
	}
	return state
}

func agentListCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "list",
		Short: "List connected agents",
	}, func(r *remote, _ []string) error {
		list, err := listUnder[agentRecord](r, "/agents")
		if err != nil {
			return err
		}
		return printTable(r, list, "No agent is connected.",
			column[agentRecord]{"id", func(a agentRecord) string { return a.ID }},
			column[agentRecord]{"name", func(a agentRecord) string { return a.Name }},
			column[agentRecord]{"state", agentRecord.stateNow},
			column[agentRecord]{"queue", func(a agentRecord) string { return a.Queue }},
			column[agentRecord]{"since", func(a agentRecord) string { return r.when(a.ConnectedAt) }},
		)
	})
}

func agentViewCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:     "view AGENT",
		Aliases: []string{"show"},
		Short:   "Show an agent",
		Args:    cmdline.Exactly("AGENT"),
	}, func(r *remote, args []string) error {
		a, err := call[agentRecord](r, get, nil, "/agents/%", args[0])
		if err != nil {
			return err
		}
		doing := ""
		if a.Value.Job != nil {
			doing = a.Value.Job.title() + " (" + a.Value.Job.ID + ")"
		}
		return printItem(r, a.Raw,
			line{"Name", a.Value.Name},
			line{"State", a.Value.stateNow()},
			line{"Note", a.Value.PausedNote},
			line{"Host", a.Value.Hostname},
			line{"Version", a.Value.Version},
			line{"Tags", strings.Join(a.Value.Tags, " ")},
			line{"Job", doing},
		)
	})
}

func agentStopCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop AGENT",
		Short: "Stop an agent after its current job",
		Args:  cmdline.Exactly("AGENT"),
	}
	force := cmd.Flags().Bool("force", false, "cancel its job and stop immediately")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		return r.perform(put, map[string]bool{"force": *force}, "The agent stops.", "/agents/%/stop", args[0])
	})
}

func agentPauseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause AGENT",
		Short: "Pause an agent: it takes no jobs",
		Args:  cmdline.Exactly("AGENT"),
	}
	note := cmd.Flags().String("note", "", "reason, shown to others")
	minutes := cmd.Flags().Int("minutes", 0, "duration in minutes (default: as last time, initially 5)")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		body := map[string]any{"note": *note}
		if *minutes != 0 {
			body["timeout_in_minutes"] = *minutes
		}
		return r.perform(put, body, "Paused.", "/agents/%/pause", args[0])
	})
}

func agentResumeCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "resume AGENT",
		Short: "Resume a paused agent",
		Args:  cmdline.Exactly("AGENT"),
	}, func(r *remote, args []string) error {
		return r.perform(put, map[string]any{}, "Resumed.", "/agents/%/resume", args[0])
	})
}
