package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
)

func jobLogCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log " + jobUse,
		Short: "Print a job's log",
		Long:  "Print a job's log, or with --failed the logs of all failed jobs of a build." + jobHelp,
		Example: `  stackyard job log web 42 test
  stackyard job log web 42 "test 2/3" --follow
  stackyard job log web 42 --failed`,
	}
	follow := cmd.Flags().BoolP("follow", "f", false, "keep printing until the job ends")
	failed := cmd.Flags().Bool("failed", false, "print the logs of all failed jobs of a build")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *failed {
			return cmdline.Exactly("PIPELINE", "BUILD")(cmd, args)
		}
		return jobArguments(cmd, args)
	}
	return remoteCommand(cmd, func(r *remote, args []string) error {
		if *failed {
			return printFailedLogs(r, args)
		}
		id, err := findJob(r, args)
		switch {
		case err != nil:
			return err
		case *follow && r.json:
			return cmdline.Usage(fmt.Errorf("--follow prints text, not JSON"))
		case *follow:
			return followLog(r, id)
		case r.json:
			log, err := call[struct{}](r, get, nil, "/jobs/%/log", id)
			if err != nil {
				return err
			}
			return r.printJSON(log.Raw)
		}
		r.startPager()
		return printLog(r, id)
	})
}

// printLog prints the log of a job.
func printLog(r *remote, id string) error {
	path, err := r.under("/jobs/%/log.txt", id)
	if err != nil {
		return err
	}
	log, err := r.Stream(r.ctx, path, "text/plain")
	if err != nil {
		return err
	}
	defer log.Close()
	_, err = io.Copy(&stampless{out: r.out}, log)
	return err
}

// printFailedLogs prints the logs of the failed jobs of a build, each after its name.
func printFailedLogs(r *remote, args []string) error {
	b, err := call[build](r, get, nil, "/pipelines/%/builds/%", args...)
	if err != nil {
		return err
	}
	r.startPager()
	any := false
	for _, j := range b.Value.Jobs {
		if j.Type != "script" || !j.failed() && !j.SoftFailed {
			continue
		}
		any = true
		if _, err := fmt.Fprintf(r.out, "==> %s: %s <==\n", plain(j.fullTitle()), r.paint(j.stateNow())); err != nil {
			return err
		}
		if err := printLog(r, j.ID); err != nil {
			return err
		}
	}
	if !any {
		return r.println("No job of the build has failed.")
	}
	return nil
}

// followLog prints a log while it grows.
func followLog(r *remote, job string) error {
	path, err := r.under("/jobs/%/log/stream", job)
	if err != nil {
		return err
	}
	out := &stampless{out: r.out}
	return r.Follow(r.ctx, path, func(e api.Event) (bool, error) {
		if e.Name != "log" {
			return e.Name == "end", nil
		}
		var piece struct{ Content string }
		if err := json.Unmarshal(e.Data, &piece); err != nil {
			return false, fmt.Errorf("decode the log: %w", err)
		}
		_, err := io.WriteString(out, piece.Content)
		return false, err
	})
}

// stampless removes the application program commands (ESC _ to BEL) with which agents mark the time of a line:
// terminals expect another terminator and would hide the following text.
type stampless struct {
	out      io.Writer
	escaped  bool // the last byte was ESC
	dropping bool
	kept     []byte
}

func (s *stampless) Write(p []byte) (int, error) {
	s.kept = s.kept[:0]
	for _, b := range p {
		s.next(b)
	}
	if _, err := s.out.Write(s.kept); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *stampless) next(b byte) {
	const esc, bell = 0x1b, 0x07
	escaped := s.escaped
	s.escaped = b == esc
	switch {
	case s.dropping:
		// A command ends with its line at the latest.
		if s.dropping = b != bell && b != '\n' && (b != '\\' || !escaped); b == '\n' {
			s.kept = append(s.kept, b)
		}
	case escaped && b == '_':
		s.dropping = true
	case escaped && b != esc:
		s.kept = append(s.kept, esc, b)
	case escaped:
		s.kept = append(s.kept, esc)
	case b != esc:
		s.kept = append(s.kept, b)
	}
}
