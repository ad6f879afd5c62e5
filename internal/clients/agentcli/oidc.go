package agentcli

import (
	"github.com/spf13/cobra"

	"stackyard/internal/clients/runner/api"
)

func agentOIDCCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "oidc", Short: "OpenID Connect tokens of the job"}
	cmd.AddCommand(oidcRequestTokenCommand())
	return cmd
}

func oidcRequestTokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "request-token",
		Short:   "Print an OpenID Connect token and redact it in the job's log",
		Example: `  stackyard agent oidc request-token --audience sts.amazonaws.com`,
	}
	flags := cmd.Flags()
	flags.String("audience", "", "audience of the token (default: PUBLIC-URL/ORGANIZATION)")
	flags.Int("lifetime", 0, "lifetime in seconds (default: 300)")
	flags.StringSlice("claim", nil, "optional claim to include, repeatable")
	flags.StringSlice("aws-session-tag", nil, "claim to include as an AWS session tag, repeatable")
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
