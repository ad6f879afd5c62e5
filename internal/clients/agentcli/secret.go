package agentcli

import (
	"fmt"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
)

func agentSecretCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "secret", Short: "Read secrets of the cluster"}
	get := &cobra.Command{Use: "get KEY", Short: "Print a secret and redact it in the job's log", Args: cmdline.Exactly("KEY")}
	addRedactionFlag(get)
	cmd.AddCommand(insideCommand(get, func(s *script, args []string) error {
		value, err := s.API.Secret(s.ctx, s.ID, args[0])
		if err != nil {
			return err
		}
		return s.printSecret(value)
	}))
	return cmd
}

func addRedactionFlag(cmd *cobra.Command) {
	cmd.Flags().Bool("skip-redaction", false, "do not redact the value in the job's log")
}

// printSecret prints a value after the agent has started to redact it in the log.
func (s *script) printSecret(value string) error {
	if !s.on("skip-redaction") {
		if err := s.Redact(s.ctx, value); err != nil {
			return fmt.Errorf("redact the value in the log: %w", err)
		}
	}
	return s.print(value)
}

func agentRedactorCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "redactor", Short: "Redact values in the job's log"}
	add := &cobra.Command{Use: "add", Short: "Redact the value read from standard input"}
	cmd.AddCommand(insideCommand(add, func(s *script, _ []string) error {
		value, err := s.text(nil, 0, "VALUE")
		if err != nil {
			return err
		}
		return s.Redact(s.ctx, value)
	}))
	return cmd
}
