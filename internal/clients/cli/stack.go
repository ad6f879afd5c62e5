package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
)

// registeredStack is a stack in the API.
type registeredStack struct {
	ID, Key, Type, State string
	QueueKey             string     `json:"cluster_queue_key"`
	Reserved             int        `json:"reserved_jobs_count"`
	ConnectedAt          *time.Time `json:"last_connected_on"`
}

func stackListCommand() *cobra.Command {
	cmd := addClusterFlag(&cobra.Command{Use: "list", Short: "List the stacks that are registered with a cluster"})
	return remoteCommand(cmd, func(r *remote, _ []string) error {
		_, list, err := registeredStacks(r, cmd)
		if err != nil {
			return err
		}
		return printTable(r, list, "The cluster has no stacks.",
			column[registeredStack]{"key", func(s registeredStack) string { return s.Key }},
			column[registeredStack]{"state", func(s registeredStack) string { return s.State }},
			column[registeredStack]{"queue", func(s registeredStack) string { return s.QueueKey }},
			column[registeredStack]{"reserved", func(s registeredStack) string { return strconv.Itoa(s.Reserved) }},
			column[registeredStack]{"type", func(s registeredStack) string { return s.Type }},
			column[registeredStack]{"last call", func(s registeredStack) string { return r.when(s.ConnectedAt) }},
			column[registeredStack]{"id", func(s registeredStack) string { return s.ID }},
		)
	})
}

func registeredStacks(r *remote, cmd *cobra.Command) (cluster, api.List[registeredStack], error) {
	c, err := r.cluster(cmd)
	if err != nil {
		return c, api.List[registeredStack]{}, err
	}
	list, err := listUnder[registeredStack](r, "/clusters/%/stacks", c.ID)
	return c, list, err
}

func stackDeleteCommand() *cobra.Command {
	cmd := addYesFlag(addClusterFlag(&cobra.Command{
		Use:     "delete KEY",
		Aliases: []string{"remove"},
		Short:   "De-register a stack",
		Long: `De-register a stack that is dead or no longer needed. Others can take its reserved
jobs at once; jobs that its agents run continue. A stack that is still running can
register again.`,
		Args: cmdline.Exactly("STACK"),
	}))
	return remoteCommand(cmd, func(r *remote, args []string) error {
		c, list, err := registeredStacks(r, cmd)
		if err != nil {
			return err
		}
		for _, s := range list.Items {
			if s.Key == args[0] || s.ID == args[0] {
				if err := r.confirm("De-register the stack " + s.Key); err != nil {
					return err
				}
				return r.perform(remove, nil, "De-registered the stack "+s.Key+".", "/clusters/%/stacks/%", c.ID, s.ID)
			}
		}
		return fmt.Errorf("the cluster %s has no stack %q; see stackyard stack list", c.Name, args[0])
	})
}
