package agentcli

import (
	"fmt"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
)

// agentGitCommand is a git credential helper for the job's repository.
func agentGitCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "git-credentials-helper URL OPERATION", Short: "Git credential helper for the job's repository", Hidden: true, Args: cmdline.Exactly("URL", "OPERATION")}
	return insideCommand(cmd, func(s *script, args []string) error {
		if args[1] != "get" {
			return nil // nothing to store or erase
		}
		token, err := s.API.RepositoryToken(s.ctx, s.ID, args[0])
		if err != nil {
			return fmt.Errorf("the server has no password for %s: %w", args[0], err)
		}
		if err := s.Redact(s.ctx, token); err != nil {
			return err
		}
		return s.print("username=token\npassword=" + token)
	})
}
