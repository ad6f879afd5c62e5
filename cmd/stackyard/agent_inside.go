package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"stackyard/internal/clients/runner/environ"
	"stackyard/internal/clients/runner/inside"
)

// agentInside are the commands for scripts inside of jobs.
func agentInside() []*cobra.Command {
	return []*cobra.Command{
		agentMetaDataCommand(), agentArtifactCommand(), agentAnnotateCommand(), agentAnnotationCommand(), agentPipelineCommand(),
		agentStepCommand(), agentOIDCCommand(), agentSecretCommand(), agentRedactorCommand(), agentJobCommand(), agentBuildCommand(), agentGitCommand(),
	}
}

// A script is what a command inside of a job speaks for.
type script struct {
	*inside.Job
	ctx context.Context
	cmd *cobra.Command
}

// insideCommand makes a command one that is used inside of a job, which it finds in its environment.
func insideCommand(cmd *cobra.Command, run func(s *script, args []string) error) *cobra.Command {
	cmd.Flags().String("job", "", "id of the job [SERVICE_JOB_ID]")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		job, err := inside.FromEnvironment(environ.Parse(os.Environ()), version)
		if err != nil {
			return &usageError{err}
		}
		s := &script{Job: job, ctx: cmd.Context(), cmd: cmd}
		s.ID = s.flagOr("job", s.ID)
		if s.ID == "" {
			return &usageError{errors.New("this command only works inside a job; SERVICE_JOB_ID is not set")}
		}
		return run(s, args)
	}
	return cmd
}

// flag returns what a flag was given.
func (s *script) flag(name string) string { return s.cmd.Flags().Lookup(name).Value.String() }

// flagOr returns what a flag was given, or what holds without it.
func (s *script) flagOr(name, otherwise string) string {
	if given := s.flag(name); given != "" {
		return given
	}
	return otherwise
}

// on reports whether a switch was given.
func (s *script) on(name string) bool { return s.flag(name) == "true" }

// build returns the build that is meant: the job's own, unless --build names another.
func (s *script) build() (string, error) {
	id := s.flagOr("build", s.BuildID)
	if id == "" {
		return "", &usageError{errors.New("--build is required; SERVICE_BUILD_ID is not set")}
	}
	return id, nil
}

func addBuildFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().String("build", "", "id of the build [SERVICE_BUILD_ID]")
	return cmd
}

// print prints a line for the script.
func (s *script) print(text string) error {
	_, err := fmt.Fprintln(s.cmd.OutOrStdout(), text)
	return err
}

// say tells a person who reads the job's log what is done.
func (s *script) say(format string, args ...any) {
	fmt.Fprintf(s.cmd.ErrOrStderr(), format+"\n", args...)
}

// text returns an argument, or standard input when it is left out. A terminal has no input to offer: there
// is nobody who types.
func (s *script) text(args []string, i int, what string) (string, error) {
	if i < len(args) {
		return args[i], nil
	}
	in := s.cmd.InOrStdin()
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return "", &usageError{fmt.Errorf("missing argument %s (or pipe it to standard input)\nSee %s --help", what, s.cmd.CommandPath())}
	}
	text, err := io.ReadAll(in)
	return strings.TrimRight(string(text), "\r\n"), err
}

// between makes a command take arguments with names, of which only the first few are required.
func between(required int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < required {
			return exactly(names[:required]...)(cmd, args)
		}
		return atMost(names...)(cmd, args)
	}
}
