package agentcli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/runner/environ"
	"stackyard/internal/clients/runner/inside"
)

// agentInside returns the commands for scripts in jobs.
func agentInside() []*cobra.Command {
	return []*cobra.Command{
		agentMetaDataCommand(), agentArtifactCommand(), agentCacheCommand(), agentAnnotateCommand(), agentAnnotationCommand(), agentPipelineCommand(),
		agentStepCommand(), agentOIDCCommand(), agentSecretCommand(), agentRedactorCommand(), agentJobCommand(), agentBuildCommand(), agentGitCommand(),
		agentRunCommandsCommand(), agentCopyProgramCommand(),
	}
}

// A script is a running command in a job.
type script struct {
	*inside.Job
	ctx context.Context
	cmd *cobra.Command
}

// insideCommand makes a command run in a job, which it finds in the environment.
func insideCommand(cmd *cobra.Command, run func(s *script, args []string) error) *cobra.Command {
	cmd.Flags().String("job", "", "id of the job [SERVICE_JOB_ID]")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		job, err := inside.FromEnvironment(environ.Parse(os.Environ()), cmdline.Version)
		if err != nil {
			return cmdline.Usage(err)
		}
		s := &script{Job: job, ctx: cmd.Context(), cmd: cmd}
		s.ID = s.flagOr("job", s.ID)
		if s.ID == "" {
			return cmdline.Usage(errors.New("this command only works inside a job; SERVICE_JOB_ID is not set"))
		}
		return run(s, args)
	}
	return cmd
}

// flag returns the value of a flag.
func (s *script) flag(name string) string { return s.cmd.Flags().Lookup(name).Value.String() }

// flagOr returns the value of a flag, or otherwise if it is not set.
func (s *script) flagOr(name, otherwise string) string {
	if given := s.flag(name); given != "" {
		return given
	}
	return otherwise
}

// on reports whether a boolean flag is set.
func (s *script) on(name string) bool { return s.flag(name) == "true" }

// build returns the build of --build, or the job's own.
func (s *script) build() (string, error) {
	id := s.flagOr("build", s.BuildID)
	if id == "" {
		return "", cmdline.Usage(errors.New("--build is required; SERVICE_BUILD_ID is not set"))
	}
	return id, nil
}

func addBuildFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().String("build", "", "id of the build [SERVICE_BUILD_ID]")
	return cmd
}

// print prints a line to standard output.
func (s *script) print(text string) error {
	_, err := fmt.Fprintln(s.cmd.OutOrStdout(), text)
	return err
}

// logf prints a message for the reader of the job's log.
func (s *script) logf(format string, args ...any) {
	fmt.Fprintf(s.cmd.ErrOrStderr(), format+"\n", args...)
}

// text returns an argument, or standard input if it is missing. It does not read from a terminal.
func (s *script) text(args []string, i int, what string) (string, error) {
	if i < len(args) {
		return args[i], nil
	}
	in := s.cmd.InOrStdin()
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return "", cmdline.Usage(fmt.Errorf("missing argument %s (or pipe it to standard input)\nSee %s --help", what, s.cmd.CommandPath()))
	}
	text, err := io.ReadAll(in)
	return strings.TrimRight(string(text), "\r\n"), err
}
