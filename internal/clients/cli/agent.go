package cli

import "github.com/spf13/cobra"

var agents = &resource{
	noun: "agent", about: "connected agents", none: "No agent is connected.", path: "/agents", arg: "AGENT", names: []string{"name"},
	columns: []shown{
		{title: "id", path: "id"}, {title: "name", path: "name"}, {title: "state", text: agentState},
		{title: "queue", path: "queue"}, {title: "since", path: "connected_at"},
	},
	lines: []shown{
		{title: "Name", path: "name"}, {title: "State", text: agentState}, {title: "Note", path: "paused_note"},
		{title: "Host", path: "hostname"}, {title: "Version", path: "version"}, {title: "Tags", path: "meta_data"},
		{title: "Job", text: func(r *remote, o object) string {
			if id := r.text(o, "job.id"); id != "" {
				return firstLine(r.text(o, "job.name")) + " (" + id + ")"
			}
			return ""
		}},
		{title: "Page", path: "web_url"}, {title: "Id", path: "id"},
	},
	without: []string{"create", "edit", "delete"},
}

// agentState describes what an agent is doing.
func agentState(r *remote, o object) string {
	state := r.text(o, "connection_state")
	if o["paused"] == true {
		state += ", paused"
	}
	if o["job"] != nil {
		state += ", busy"
	}
	return state
}

// agentActions returns the commands that stop, pause and resume agents.
func agentActions() []*cobra.Command {
	act := func(cmd *cobra.Command, done string, body func() any) *cobra.Command {
		verb := cmd.Use
		return agents.action(cmd, func(r *remote, one string, _ object) error {
			if err := r.Do(r.ctx, put, one+"/"+verb, body(), nil); err != nil {
				return err
			}
			return r.println(done)
		})
	}
	stop := &cobra.Command{Use: "stop", Short: "Stop an agent after its current job"}
	force := stop.Flags().Bool("force", false, "cancel its job and stop immediately")
	pause := &cobra.Command{Use: "pause", Short: "Pause an agent: it takes no jobs"}
	note := pause.Flags().String("note", "", "reason, shown to others")
	minutes := pause.Flags().Int("minutes", 0, "duration in minutes (default: as last time, initially 5)")
	return []*cobra.Command{
		act(stop, "The agent stops.", func() any { return map[string]bool{"force": *force} }),
		act(pause, "Paused.", func() any {
			body := map[string]any{"note": *note}
			if *minutes != 0 {
				body["timeout_in_minutes"] = *minutes
			}
			return body
		}),
		act(&cobra.Command{Use: "resume", Short: "Resume a paused agent"}, "Resumed.", func() any { return map[string]any{} }),
	}
}
