// Command stackyard is a self-hosted continuous-integration control plane: server and tools in one
// static binary.
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
)

// Exit statuses.
const (
	exitFailed  = 1  // something went wrong while it ran
	exitUsage   = 2  // it was started with settings or a file that are wrong
	exitRefused = 27 // an agent may not run the job that it was started for
)

// otherAgentName is what scripts call the agent that were written for the published one. Inside of jobs
// there is a link of that name to this program.
const otherAgentName = "buildkite-agent"

func main() { os.Exit(run()) }

// run runs one command and returns the exit status.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first signal the next one ends the process at once.
	context.AfterFunc(ctx, stop)
	cmd := root()
	if filepath.Base(os.Args[0]) == otherAgentName {
		cmd.SetArgs(append([]string{"agent"}, os.Args[1:]...))
	}
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "stackyard: %v\n", err)
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	if exit, ok := errors.AsType[*statusError](err); ok {
		return exit.status
	}
	return exitFailed
}

// statusError is an error with an exit status of its own.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// usageError is an error of whoever started the program.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stackyard",
		Short: "A self-hosted continuous-integration control plane",
		Long: `Stackyard is a self-hosted continuous-integration control plane.

Start with "stackyard up": the whole product on this machine, with a demo
organization to try. For production there is "stackyard serve", prepared with
"stackyard apply -f organizations.yaml".`,
		Version:       versionLine(),
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w\nSee %s --help", err, cmd.CommandPath())}
	})
	cmd.AddCommand(upCommand(), serveCommand(), applyCommand(), agentCommand(), versionCommand(),
		loginCommand(), logoutCommand(), whoamiCommand(),
		orgCommand(), clusterCommand(), queueCommand(), tokenCommand(),
		pipelineCommand(), buildCommand(), jobCommand(), stackCommand())
	cmd.InitDefaultCompletionCmd()
	for _, c := range cmd.Commands() {
		if c.Name() == "completion" {
			forgetArguments(c) // the library has words of its own for what we refuse
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

// refuseArguments makes a command and those below it refuse arguments, unless they say which they take.
// One that only groups others shows its help; the library would do so for an unknown command too, and
// call it a success.
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
	return &usageError{fmt.Errorf("%s %q%s\nSee %s --help", what, args[0], suggestion(cmd, args[0]), cmd.CommandPath())}
}

// suggestion asks whether a command with a similar name was meant.
func suggestion(cmd *cobra.Command, mistyped string) string {
	if similar := cmd.SuggestionsFor(mistyped); len(similar) > 0 {
		return "; did you mean " + strings.Join(similar, " or ") + "?"
	}
	return ""
}
