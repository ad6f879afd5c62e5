package main

import (
	"github.com/spf13/cobra"

	"stackyard/internal/runner/api"
)

func agentOIDCCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "oidc", Short: "Prove to other services who the job is"}
	cmd.AddCommand(oidcRequestTokenCommand())
	return cmd
}

func oidcRequestTokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "request-token",
		Short:   "Print an identity token, and keep it out of the job's log",
		Example: `  stackyard agent oidc request-token --audience sts.amazonaws.com`,
	}
	flags := cmd.Flags()
	flags.String("audience", "", "whom the token is for (default: the server's URL)")
	flags.Int("lifetime", 0, "seconds that it is good for (default: what the server thinks best)")
	flags.StringSlice("claim", nil, "optional claims to put in; can be repeated")
	flags.StringSlice("aws-session-tag", nil, "claims to put in as session tags of AWS; can be repeated")
	flags.String("subject-claim", "", "claim to use as the subject")
	addRedactionFlag(cmd)
	return insideCommand(cmd, func(s *script, _ []string) error {
		lifetime, _ := flags.GetInt("lifetime")
		claims, _ := flags.GetStringSlice("claim")
		tags, _ := flags.GetStringSlice("aws-session-tag")
		token, err := s.API.OIDCToken(s.ctx, s.ID, api.OIDCRequest{
			Audience: s.flag("audience"), Lifetime: lifetime, Claims: claims, AWSSessionTags: tags, SubjectClaim: s.flag("subject-claim"),
		})
		if err != nil {
			return err
		}
		return s.printSecret(token)
	})
}
