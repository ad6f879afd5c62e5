package agentcli

import (
	"fmt"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
)

func agentJobCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "job", Short: "Update the running job"}
	cmd.AddCommand(jobUpdateCommand(), jobPromiseFailureCommand())
	return cmd
}

func jobUpdateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "update ATTRIBUTE [VALUE]",
		Short:   "Update an attribute of the job",
		Long:    "Update an attribute of the job. Reads standard input if VALUE is missing.",
		Example: `  stackyard agent job update timeout 20`,
		Args:    cmdline.Between(1, "ATTRIBUTE", "VALUE"),
	}
	return insideCommand(cmd, func(s *script, args []string) error {
		value, err := s.text(args, 1, "VALUE")
		if err != nil {
			return err
		}
		return s.API.Update(s.ctx, s.ID, args[0], value)
	})
}

func jobPromiseFailureCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "promise-failure",
		Short: "Declare early that the job will fail",
		Long: `Declare that the running job will fail with an exit status. The build is failing
from then on.`,
	}
	status := cmd.Flags().Int("exit-status", 1, "expected exit status")
	reason := cmd.Flags().String("reason", "", "reason, shown to people")
	return insideCommand(cmd, func(s *script, _ []string) error {
		if *status < 1 {
			return cmdline.Usage(fmt.Errorf("--exit-status: %d is not a failure", *status))
		}
		return s.API.PromiseFailure(s.ctx, s.ID, *status, *reason)
	})
}
