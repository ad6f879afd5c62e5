package agentcli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/runner/api"
)

func agentStepCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "step", Short: "Get, update and cancel steps of the build"}
	cmd.AddCommand(stepGetCommand(), stepUpdateCommand(), stepCancelCommand())
	return cmd
}

func stepGetCommand() *cobra.Command {
	cmd := addStepFlags(&cobra.Command{Use: "get [ATTRIBUTE]", Short: "Print one attribute of a step (label, state, outcome, …), or all", Args: cmdline.AtMost("ATTRIBUTE")})
	cmd.Flags().String("format", "", "output format: json")
	return insideCommand(cmd, func(s *script, args []string) error {
		step, err := s.step()
		if err != nil {
			return err
		}
		attribute := ""
		if len(args) > 0 {
			attribute = args[0]
		}
		output, err := s.API.ExportStep(s.ctx, step, s.flagOr("build", s.BuildID), attribute, s.flag("format"))
		if err != nil {
			return err
		}
		return s.print(output)
	})
}

func stepUpdateCommand() *cobra.Command {
	cmd := addStepFlags(&cobra.Command{Use: "update ATTRIBUTE [VALUE]", Short: "Update an attribute of a step", Long: "Update an attribute of a step. Reads standard input if VALUE is missing.", Args: cmdline.Between(1, "ATTRIBUTE", "VALUE")})
	cmd.Flags().Bool("append", false, "append to the value")
	return insideCommand(cmd, func(s *script, args []string) error {
		step, err := s.step()
		if err != nil {
			return err
		}
		value, err := s.text(args, 1, "VALUE")
		if err != nil {
			return err
		}
		return s.API.UpdateStep(s.ctx, step, api.StepUpdate{
			ID: uuid.NewString(), BuildID: s.flagOr("build", s.BuildID), Attribute: args[0], Value: value, Append: s.on("append"),
		})
	})
}

func stepCancelCommand() *cobra.Command {
	cmd := addStepFlags(&cobra.Command{Use: "cancel", Short: "Cancel the jobs of a step"})
	cmd.Flags().Bool("force", false, "end the jobs even if their agents do not respond")
	cmd.Flags().Int("force-grace-period-seconds", 10, "seconds agents have to stop with --force")
	return insideCommand(cmd, func(s *script, _ []string) error {
		step, err := s.step()
		if err != nil {
			return err
		}
		build, err := s.build()
		if err != nil {
			return err
		}
		grace, err := strconv.Atoi(s.flag("force-grace-period-seconds"))
		if err != nil {
			return err
		}
		if err := s.API.CancelStep(s.ctx, step, build, s.on("force"), grace); err != nil {
			return fmt.Errorf("cancel the step: %w", err)
		}
		return nil
	})
}

func addStepFlags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().String("step", "", "step id or key [SERVICE_STEP_ID]")
	return addBuildFlag(cmd)
}

// step returns the step of --step, or the job's own.
func (s *script) step() (string, error) {
	step := s.flagOr("step", s.StepID)
	if step == "" {
		return "", cmdline.Usage(errors.New("--step is required; SERVICE_STEP_ID is not set"))
	}
	return step, nil
}
