package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
)

type cluster = api.Cluster

func clusterCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "cluster", Short: "Manage clusters"}
	cmd.AddCommand(clusterResource.commands()...)
	cmd.AddCommand(clusterListCommand(), clusterCreateCommand(), clusterDeleteCommand())
	return cmd
}

func clusterListCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "list",
		Short: "List clusters",
	}, func(r *remote, _ []string) error {
		list, err := listUnder[cluster](r, "/clusters")
		if err != nil {
			return err
		}
		return printTable(r, list, "There are no clusters.",
			column[cluster]{"name", func(c cluster) string { return c.Name }},
			column[cluster]{"id", func(c cluster) string { return c.ID }},
			column[cluster]{"description", func(c cluster) string { return c.Description }},
		)
	})
}

func clusterCreateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a cluster",
		Args:  cmdline.Exactly("NAME"),
	}
	description := cmd.Flags().String("description", "", "description")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		made, err := call[cluster](r, post, map[string]string{"name": args[0], "description": *description}, "/clusters")
		if err != nil {
			return err
		}
		return printItem(r, made.Raw, line{"Created", made.Value.Name}, line{"Id", made.Value.ID})
	})
}

func clusterDeleteCommand() *cobra.Command {
	cmd := addYesFlag(addClusterFlag(&cobra.Command{Use: "delete --cluster NAME", Short: "Delete a cluster"}))
	return remoteCommand(cmd, func(r *remote, _ []string) error {
		if cmd.Flags().Lookup("cluster").Value.String() == "" {
			return cmdline.Usage(errors.New("--cluster is required"))
		}
		c, err := r.cluster(cmd)
		if err != nil {
			return err
		}
		if err := r.confirm("Delete the cluster " + c.Name); err != nil {
			return err
		}
		return r.perform(remove, nil, "Deleted the cluster "+c.Name+".", "/clusters/%", c.ID)
	})
}
