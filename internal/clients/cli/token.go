package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
)

type agentToken = api.AgentToken

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Manage agent tokens of a cluster"}
	cmd.AddCommand(tokenResource.commands()...)
	cmd.AddCommand(tokenListCommand(), tokenCreateCommand(), tokenDeleteCommand())
	return cmd
}

func tokenListCommand() *cobra.Command {
	cmd := addClusterFlag(&cobra.Command{Use: "list", Short: "List the agent tokens of a cluster"})
	return remoteCommand(cmd, func(r *remote, _ []string) error {
		c, err := r.cluster(cmd)
		if err != nil {
			return err
		}
		list, err := listUnder[agentToken](r, "/clusters/%/tokens", c.ID)
		if err != nil {
			return err
		}
		return printTable(r, list, "The cluster has no agent tokens.",
			column[agentToken]{"id", func(t agentToken) string { return t.ID }},
			column[agentToken]{"description", func(t agentToken) string { return t.Description }},
			column[agentToken]{"created", func(t agentToken) string { return r.when(t.CreatedAt) }},
			column[agentToken]{"expires", func(t agentToken) string { return r.when(t.ExpiresAt) }},
			column[agentToken]{"from", func(t agentToken) string { return t.Allowed }},
		)
	})
}

func tokenCreateCommand() *cobra.Command {
	cmd := addClusterFlag(&cobra.Command{
		Use:     "create DESCRIPTION",
		Short:   "Create an agent token; its value is shown once",
		Example: `  stackyard token create "build machines" --expires-in 720h`,
		Args:    cmdline.Exactly("DESCRIPTION"),
	})
	expires := cmd.Flags().Duration("expires-in", 0, "lifetime (default: no expiry)")
	allowed := cmd.Flags().StringSlice("allow", nil, "address range the token can be used from, repeatable (default: any)")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		c, err := r.cluster(cmd)
		if err != nil {
			return err
		}
		body := map[string]any{"description": args[0]}
		if *expires != 0 {
			body["expires_at"] = time.Now().Add(*expires).UTC().Format(time.RFC3339)
		}
		if len(*allowed) > 0 {
			body["allowed_ip_addresses"] = strings.Join(*allowed, " ")
		}
		made, err := call[agentToken](r, post, body, "/clusters/%/tokens", c.ID)
		if err != nil {
			return err
		}
		return printItem(r, made.Raw, line{"Token", made.Value.Token}, line{"Id", made.Value.ID}, line{"Expires", r.when(made.Value.ExpiresAt)})
	})
}

func tokenDeleteCommand() *cobra.Command {
	cmd := addYesFlag(addClusterFlag(&cobra.Command{
		Use:     "delete ID",
		Aliases: []string{"revoke"},
		Short:   "Revoke an agent token",
		Args:    cmdline.Exactly("ID"),
	}))
	return remoteCommand(cmd, func(r *remote, args []string) error {
		c, err := r.cluster(cmd)
		if err != nil {
			return err
		}
		if err := r.confirm("Revoke the token " + args[0]); err != nil {
			return err
		}
		return r.perform(remove, nil, "Revoked the token.", "/clusters/%/tokens/%", c.ID, args[0])
	})
}
