// Command stackyard is a self-hosted continuous-integration control plane: server and tools in one static
// binary.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/agentcli"
	"stackyard/internal/clients/cli"
	"stackyard/internal/clients/cmdline"
)

// otherAgentName is the name of the published agent. In jobs there is a link with this name to this program,
// for scripts written for that agent.
const otherAgentName = "buildkite-agent"

func main() { os.Exit(run()) }

// run runs a command and returns the exit status.
func run() int {
	cmdline.Version = version
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first signal, the next one ends the process at once.
	context.AfterFunc(ctx, stop)
	cmd := root()
	if filepath.Base(os.Args[0]) == otherAgentName {
		cmd.SetArgs(append([]string{"agent"}, os.Args[1:]...))
	}
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*cmdline.StatusError](err); ok && exit.Err == nil {
		return exit.Status
	}
	fmt.Fprintf(os.Stderr, "stackyard: %v\n", err)
	if _, ok := errors.AsType[*cmdline.UsageError](err); ok {
		return cmdline.ExitUsage
	}
	if exit, ok := errors.AsType[*cmdline.StatusError](err); ok {
		return exit.Status
	}
	return cmdline.ExitFailed
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stackyard",
		Short: "A self-hosted continuous-integration control plane",
		Long: `Stackyard is a self-hosted continuous-integration control plane.

To try it, run "stackyard up": everything on this machine, with a demo
organization. For production, run "stackyard apply -f organizations.yaml" and
"stackyard serve".`,
		Version:       versionLine(),
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cmdline.Usage(fmt.Errorf("%w\nSee %s --help", err, cmd.CommandPath()))
	})
	cmd.AddCommand(upCommand(), serveCommand(), applyCommand(), backupCommand(), migrateDatabaseCommand(), doctorCommand(), versionCommand(),
		agentcli.AgentCommand(cli.AgentCommands()), agentcli.MachineCommand(), agentcli.StackCommand(cli.StackCommands()))
	cmd.AddCommand(runCommand(), lintCommand(), importCommand(), agentcli.ToolCommand())
	cmd.AddCommand(cli.Commands()...)
	cmd.InitDefaultCompletionCmd()
	for _, c := range cmd.Commands() {
		if c.Name() == "completion" {
			forgetArguments(c) // the library has its own messages for extra arguments
		}
	}
	refuseArguments(cmd)
	return cmd
}

func forgetArguments(cmd *cobra.Command) {
	cmd.Args = nil
	for _, c := range cmd.Commands() {
		forgetArguments(c)
	}
}

// refuseArguments makes a command and its subcommands reject arguments unless they define Args. A command that
// only groups others shows its help; for an unknown command the library would do the same, and exit with 0.
func refuseArguments(cmd *cobra.Command) {
	if cmd.Args == nil {
		cmd.Args = noArguments
	}
	if !cmd.Runnable() {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	for _, c := range cmd.Commands() {
		refuseArguments(c)
	}
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	what := "unexpected argument"
	if cmd.HasSubCommands() {
		what = "unknown command"
	}
	return cmdline.Usage(fmt.Errorf("%s %q%s\nSee %s --help", what, args[0], suggestion(cmd, args[0]), cmd.CommandPath()))
}

// suggestion suggests a command with a similar name.
func suggestion(cmd *cobra.Command, mistyped string) string {
	if similar := cmd.SuggestionsFor(mistyped); len(similar) > 0 {
		return "; did you mean " + strings.Join(similar, " or ") + "?"
	}
	return ""
}
