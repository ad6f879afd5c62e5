package cli

import (
	"github.com/spf13/cobra"

	"stackyard/api"
)

type organization = api.Organization

func orgCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "org", Short: "List organizations"}
	cmd.AddCommand(remoteCommand(&cobra.Command{
		Use:   "list",
		Short: "List organizations your token can access",
	}, func(r *remote, _ []string) error {
		list, err := api.All[organization](r.ctx, r.Client, "/v2/organizations?per_page=100", 10_000)
		if err != nil {
			return err
		}
		return printTable(r, list, "Your token reaches no organization.",
			column[organization]{"slug", func(o organization) string { return o.Slug }},
			column[organization]{"name", func(o organization) string { return o.Name }},
		)
	}))
	return cmd
}
