package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/runner"
)

func agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run jobs, and be of use inside of them",
		Long: `Register with a server, take jobs and run them.

Settings are taken from flags, then the environment, then defaults. With
SERVICE_AGENT_ACQUIRE_JOB the agent runs that one job, disconnects and exits.

Jobs run as the agent's user, or with --job-user as another one. The agent takes
its token out of its arguments and environment before it runs any job.

SIGTERM lets the agent finish the job it runs and then disconnects it; a second
one cancels the job. It exits with 0, with 27 when the server will not let it have
the job that it was started for, with 2 when a setting is wrong, else with 1.

Of the commands below, list, show, stop, pause and resume speak to a server that
you are signed in to; the others are for scripts inside of jobs.`,
		Example: `  SERVICE_AGENT_TOKEN=svcct_… stackyard agent --queue linux --spawn 4
  stackyard agent meta-data set release 1.2.3
  stackyard agent artifact upload 'dist/**/*.tar.gz'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := hideSecrets(cmd, agentSettings); err != nil {
				return err
			}
			options, err := agentOptions(cmd)
			if err != nil {
				return refuse(err)
			}
			ctx, drain, done := twoSignals(cmd.Context(), options.Log)
			defer done()
			return agentStatus(runner.Run(ctx, drain, options))
		},
	}
	addFlags(cmd, agentSettings)
	cmd.AddCommand(agentInside()...)
	cmd.AddCommand(agentRemote()...)
	return cmd
}

// agentStatus gives the errors of an agent the exit statuses that supervisors know.
func agentStatus(err error) error {
	if errors.Is(err, runner.ErrAcquisitionRefused) {
		return &statusError{exitRefused, err}
	}
	return err
}

// twoSignals returns contexts for an agent: drain is done after the first signal that wants it to end, ctx
// after the second. The third ends the process at once.
func twoSignals(parent context.Context, log *slog.Logger) (ctx, drain context.Context, done func()) {
	ctx, stop := context.WithCancel(context.WithoutCancel(parent))
	drain, first := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for _, then := range []struct {
			do  func()
			say string
		}{
			{first, "finishing what runs; another signal cancels it"},
			{stop, "cancelling what runs; another signal ends the agent at once"},
		} {
			select {
			case <-signals:
			case <-ctx.Done():
				return
			}
			log.Info(then.say)
			then.do()
		}
		signal.Stop(signals)
	}()
	return ctx, drain, func() {
		signal.Stop(signals)
		stop()
	}
}
