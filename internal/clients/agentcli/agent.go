// Package agentcli has the commands that run agents and stacks, and those for scripts in jobs.
package agentcli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/runner"
)

// AgentCommand returns the command that runs an agent, with subcommands for scripts in jobs and others.
func AgentCommand(others []*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run an agent; commands for scripts in jobs",
		Long: `Run an agent: register with a server, accept jobs and run them.

Settings come from flags, then environment variables, then defaults. With
SERVICE_AGENT_ACQUIRE_JOB the agent runs that job, disconnects and exits.

Jobs run as the agent's user, or as another user with --job-user. The agent
removes its token from its arguments and environment before it runs a job.

After SIGTERM the agent finishes the running job and disconnects; after a second
SIGTERM it cancels the job. Exit status: 0 on success, 2 for invalid settings,
27 if the server refuses the job of --acquire-job, otherwise 1.

The subcommands list, show, stop, pause and resume call a server that you are
signed in to. The other subcommands are for scripts in jobs.`,
		Example: `  SERVICE_AGENT_TOKEN=svcct_… stackyard agent --queue linux --spawn 4
  stackyard agent meta-data set release 1.2.3
  stackyard agent artifact upload 'dist/**/*.tar.gz'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmdline.HideSecrets(cmd, agentSettings); err != nil {
				return err
			}
			options, err := agentOptions(cmd)
			if err != nil {
				return cmdline.Usage(err)
			}
			ctx, drain, done := twoSignals(cmd.Context(), options.Log)
			defer done()
			return agentStatus(runner.Run(ctx, drain, options))
		},
	}
	cmdline.AddFlags(cmd, agentSettings)
	cmd.AddCommand(agentInside()...)
	cmd.AddCommand(others...)
	return cmd
}

// agentStatus maps the errors of an agent to the exit statuses that supervisors expect.
func agentStatus(err error) error {
	if errors.Is(err, runner.ErrAcquisitionRefused) {
		return &cmdline.StatusError{Status: cmdline.ExitRefused, Err: err}
	}
	return err
}

// twoSignals returns contexts for an agent: drain is done after the first SIGINT or SIGTERM, ctx after the
// second. The third ends the process at once.
func twoSignals(parent context.Context, log *slog.Logger) (ctx, drain context.Context, done func()) {
	ctx, stop := context.WithCancel(context.WithoutCancel(parent))
	drain, first := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for _, step := range []struct {
			cancel  context.CancelFunc
			message string
		}{
			{first, "finishing running jobs; another signal cancels them"},
			{stop, "canceling running jobs; another signal exits at once"},
		} {
			select {
			case <-signals:
			case <-ctx.Done():
				return
			}
			log.Info(step.message)
			step.cancel()
		}
		signal.Stop(signals)
	}()
	return ctx, drain, func() {
		signal.Stop(signals)
		stop()
	}
}
