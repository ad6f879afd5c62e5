package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
)

type queue api.Queue

func queueCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "queue", Short: "Manage queues of a cluster"}
	cmd.AddCommand(queueResource.commands()...)
	cmd.AddCommand(queueListCommand(), queueCreateCommand(), queuePauseCommand(), queueResumeCommand(), queueDeleteCommand())
	return cmd
}

func queueListCommand() *cobra.Command {
	cmd := addClusterFlag(&cobra.Command{Use: "list", Short: "List the queues of a cluster"})
	return remoteCommand(cmd, func(r *remote, _ []string) error {
		c, list, err := queues(r, cmd)
		if err != nil {
			return err
		}
		return printTable(r, list, "The cluster has no queues.",
			column[queue]{"key", func(q queue) string { return q.Key }},
			column[queue]{"state", func(q queue) string { return q.state(c) }},
			column[queue]{"id", func(q queue) string { return q.ID }},
			column[queue]{"description", func(q queue) string { return q.Description }},
		)
	})
}

func (q queue) state(c cluster) string {
	state := "open"
	if q.Paused {
		state = "paused"
		if q.PausedNote != "" {
			state += " (" + q.PausedNote + ")"
		}
	}
	if q.Hosted {
		state += ", hosted"
	}
	if q.ID == c.DefaultQueueID {
		state += ", default"
	}
	return state
}

func queues(r *remote, cmd *cobra.Command) (cluster, api.List[queue], error) {
	c, err := r.cluster(cmd)
	if err != nil {
		return c, api.List[queue]{}, err
	}
	list, err := listUnder[queue](r, "/clusters/%/queues", c.ID)
	return c, list, err
}

// findQueue finds a queue of the cluster by key or id.
func findQueue(r *remote, cmd *cobra.Command, named string) (cluster, queue, error) {
	c, list, err := queues(r, cmd)
	if err != nil {
		return c, queue{}, err
	}
	for _, q := range list.Items {
		if q.Key == named || q.ID == named {
			return c, q, nil
		}
	}
	return c, queue{}, fmt.Errorf("the cluster %s has no queue %q; %s", c.Name, named, elsewhere(named, names(list.Items, func(q queue) string { return q.Key }), "stackyard queue list"))
}

// onQueue makes a command act on the queue that its argument names.
func onQueue(cmd *cobra.Command, act func(r *remote, c cluster, q queue) error) *cobra.Command {
	cmd.Args = cmdline.Exactly("QUEUE")
	return remoteCommand(addClusterFlag(cmd), func(r *remote, args []string) error {
		c, q, err := findQueue(r, cmd, args[0])
		if err != nil {
			return err
		}
		return act(r, c, q)
	})
}

func queueCreateCommand() *cobra.Command {
	cmd := addClusterFlag(&cobra.Command{
		Use:   "create KEY",
		Short: "Create a queue",
		Args:  cmdline.Exactly("KEY"),
	})
	description := cmd.Flags().String("description", "", "description")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		c, err := r.cluster(cmd)
		if err != nil {
			return err
		}
		made, err := call[queue](r, post, map[string]string{"key": args[0], "description": *description}, "/clusters/%/queues", c.ID)
		if err != nil {
			return err
		}
		return printItem(r, made.Raw, line{"Created", made.Value.Key}, line{"Id", made.Value.ID})
	})
}

func queuePauseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause KEY",
		Short: "Pause a queue: hand out no jobs",
	}
	note := cmd.Flags().String("note", "", "reason, shown to others")
	return onQueue(cmd, func(r *remote, c cluster, q queue) error {
		return r.perform(post, map[string]string{"dispatch_paused_note": *note}, "Paused "+q.Key+".", "/clusters/%/queues/%/pause_dispatch", c.ID, q.ID)
	})
}

func queueResumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume KEY",
		Short: "Resume a paused queue",
	}
	return onQueue(cmd, func(r *remote, c cluster, q queue) error {
		return r.perform(post, nil, "Resumed "+q.Key+".", "/clusters/%/queues/%/resume_dispatch", c.ID, q.ID)
	})
}

func queueDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete KEY",
		Short: "Delete a queue",
	}
	return onQueue(addYesFlag(cmd), func(r *remote, c cluster, q queue) error {
		if err := r.confirm("Delete the queue " + q.Key); err != nil {
			return err
		}
		return r.perform(remove, nil, "Deleted the queue "+q.Key+".", "/clusters/%/queues/%", c.ID, q.ID)
	})
}
