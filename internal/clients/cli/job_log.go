package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/client"
	"stackyard/internal/clients/cmdline"
)

func jobLogCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log JOB",
		Short: "Print a job's log",
		Args:  cmdline.Exactly("JOB"),
	}
	follow := cmd.Flags().BoolP("follow", "f", false, "keep printing until the job ends")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		switch {
		case *follow && r.json:
			return cmdline.Usage(fmt.Errorf("--follow prints text, not JSON"))
		case *follow:
			return followLog(r, args[0])
		case r.json:
			log, err := call[struct{}](r, get, nil, "/jobs/%/log", args[0])
			if err != nil {
				return err
			}
			return r.printJSON(log.Raw)
		}
		path, err := r.under("/jobs/%/log.txt", args[0])
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
	})
}

// followLog prints a log while it grows.
func followLog(r *remote, job string) error {
	path, err := r.under("/jobs/%/log/stream", job)
	if err != nil {
		return err
	}
	out := &stampless{out: r.out}
	return r.Follow(r.ctx, path, func(e client.Event) (bool, error) {
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
