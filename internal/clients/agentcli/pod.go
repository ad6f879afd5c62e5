package agentcli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/runner/podexec"
)

// agentRunCommandsCommand returns the command of the container that runs a step's command, in a pod.
func agentRunCommandsCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "run-commands SOCKET",
		Short:  "Run the commands of an agent in another container of the pod",
		Args:   cmdline.Exactly("SOCKET"),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return podexec.Serve(cmd.Context(), args[0], DefaultShell(""))
		},
	}
}

// agentCopyProgramCommand returns the command of the container that puts this program into a pod. The image with
// the program has no shell and no cp.
func agentCopyProgramCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "copy-program PATH",
		Short:  "Copy this program to a path",
		Args:   cmdline.Exactly("PATH"),
		Hidden: true,
		RunE:   func(_ *cobra.Command, args []string) error { return copyProgram(args[0]) },
	}
}

func copyProgram(path string) (err error) {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(executable)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.CreateTemp(filepath.Dir(path), ".stackyard-*")
	if err != nil {
		return err
	}
	defer os.Remove(to.Name())
	_, err = io.Copy(to, from)
	if closed := to.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(to.Name(), 0o755)
	}
	if err == nil {
		err = os.Rename(to.Name(), path) // containers see the whole program or none
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", executable, err)
	}
	return nil
}
