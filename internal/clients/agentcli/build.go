package agentcli

import "github.com/spf13/cobra"

func agentBuildCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "build", Short: "Manage the build"}
	cancel := addBuildFlag(&cobra.Command{Use: "cancel", Short: "Cancel the build"})
	cmd.AddCommand(insideCommand(cancel, func(s *script, _ []string) error {
		build, err := s.build()
		if err != nil {
			return err
		}
		return s.API.CancelBuild(s.ctx, build)
	}))
	return cmd
}
