// Command stackyard is a self-hosted continuous-integration control plane: server and tools in one
// static binary.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitFailed = 1 // something went wrong while it ran
	exitUsage  = 2 // it was started with settings or a file that are wrong
)

func main() { os.Exit(run()) }

// run runs one command and returns the exit status.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first signal the next one ends the process at once.
	context.AfterFunc(ctx, stop)
	err := root().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "stackyard: %v\n", err)
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

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
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w\nSee %s --help", err, cmd.CommandPath())}
	})
	cmd.AddCommand(upCommand(), serveCommand(), applyCommand(), versionCommand())
	for _, c := range cmd.Commands() {
		c.Args = noArguments
	}
	return cmd
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &usageError{fmt.Errorf("unexpected argument %q\nSee %s --help", args[0], cmd.CommandPath())}
}
