package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/client"
	"stackyard/internal/clients/cmdline"
)

// sessionToken is the variable with the access token of a session, for the tunnel command.
const sessionToken = "STACKYARD_SESSION_TOKEN"

// A sshSession is a shell that the server has opened.
type sshSession struct {
	Endpoint    string
	AccessToken string `json:"access_token"`
	SSH         struct {
		Username   string
		PrivateKey string   `json:"private_key"`
		HostKeys   []string `json:"host_keys"`
	}
}

func jobSSHCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ssh " + jobUse + " [-- COMMAND...]",
		Short: "Open a shell in a running job",
		Long: `Open a shell in a running job, or run a command there: as the user of the job, in
its working directory and with its variables. It needs the permission
manage_hosted_agents, and remote access in the organization's pipeline settings.

It starts the system's ssh and connects it to the job through the server, so the
agent does not have to be reachable. Keys exist for this session only. The session
ends with the job. The command exits with the status of the shell or the command
in the job.` + jobHelp,
		Example: `  stackyard job ssh web 42 test
  stackyard job ssh web 42 "test 2/3" -- tail -n 50 test.log
  stackyard job ssh 0190c0de-0000-7000-8000-00000000000a`,
		Args: sshArguments,
	}
	tty := cmd.Flags().BoolP("tty", "t", false, "use a terminal for the command too")
	cmd = remoteCommand(cmd, func(r *remote, args []string) error {
		program, err := exec.LookPath("ssh")
		if err != nil {
			return errors.New("ssh not found; install OpenSSH's client")
		}
		named, command := splitCommand(cmd, args)
		id, err := findJob(r, named)
		if err != nil {
			return err
		}
		opened, err := call[sshSession](r, post, nil, "/jobs/%/ssh-session", id)
		if err != nil {
			return err
		}
		if r.json {
			return r.printJSON(opened.Raw)
		}
		return opened.Value.run(program, id, command, *tty)
	})
	return cmd
}

// splitCommand splits arguments into those that name a job and the command to run in it. What follows the id of a job, or
// --, is the command.
func splitCommand(cmd *cobra.Command, args []string) (named, command []string) {
	n := len(args)
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		n = dash
	}
	if n > 0 && isID(args[0]) {
		n = 1
	}
	return args[:n], args[n:]
}

func sshArguments(cmd *cobra.Command, args []string) error {
	named, _ := splitCommand(cmd, args)
	return jobArguments(cmd, named)
}

// run runs ssh through the tunnel.
func (s sshSession) run(program, jobID string, command []string, tty bool) error {
	dir, err := os.MkdirTemp("", "stackyard-ssh-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	args, err := s.arguments(dir, jobID)
	if err != nil {
		return err
	}
	if tty {
		args = append(args, "-t")
	}
	// ssh joins the words of a command with spaces, as it always does.
	cmd := exec.Command(program, append(append(args, "--", jobID), command...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), sessionToken+"="+s.AccessToken)
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return &cmdline.StatusError{Status: exit.ExitCode()}
	}
	return err
}

// arguments writes the keys of a session into a directory and returns the arguments of ssh. They ignore the user's
// configuration, which could forward agents or reuse connections.
func (s sshSession) arguments(dir, jobID string) ([]string, error) {
	key, known := filepath.Join(dir, "key"), filepath.Join(dir, "known_hosts")
	alias := "job-" + jobID
	var hosts strings.Builder
	for _, host := range s.SSH.HostKeys {
		fmt.Fprintf(&hosts, "%s %s\n", alias, host)
	}
	err := errors.Join(os.WriteFile(key, []byte(s.SSH.PrivateKey), 0o600), os.WriteFile(known, []byte(hosts.String()), 0o600))
	if err != nil {
		return nil, err
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	check := "yes"
	if len(s.SSH.HostKeys) == 0 { // on macOS the API gives none; the server vouches for the other end
		check = "no"
	}
	// ssh replaces % and passes the rest to a shell.
	proxy := strings.ReplaceAll(quoted(executable)+" job tunnel "+quoted(s.Endpoint), "%", "%%")
	return []string{
		"-F", "none",
		"-o", "ProxyCommand=" + proxy,
		"-o", "HostKeyAlias=" + alias,
		"-o", "UserKnownHostsFile=" + known,
		"-o", "GlobalKnownHostsFile=none",
		"-o", "StrictHostKeyChecking=" + check,
		"-o", "UpdateHostKeys=no",
		"-o", "IdentitiesOnly=yes",
		"-o", "IdentityAgent=none",
		"-o", "PreferredAuthentications=publickey",
		"-o", "LogLevel=ERROR",
		"-i", key,
		"-l", s.SSH.Username,
	}, nil
}

// quoted quotes a word for a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// jobTunnelCommand connects ssh to a session.
func jobTunnelCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "tunnel ENDPOINT",
		Short:  "Connect standard input and output to a remote session",
		Long:   "Connect standard input and output to a remote session, as a ProxyCommand of ssh. The access token is in " + sessionToken + ".",
		Hidden: true,
		Args:   cmdline.Exactly("ENDPOINT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			token := os.Getenv(sessionToken)
			if token == "" {
				return cmdline.Usage(errors.New(sessionToken + " is not set"))
			}
			reason, err := client.Tunnel(cmd.Context(), args[0], token, cmdline.UserAgent(), os.Stdin, os.Stdout)
			if reason != "" && reason != "the session has ended" && reason != "the user has disconnected" {
				fmt.Fprintf(os.Stderr, "\r\nSession closed: %s.\r\n", plain(reason))
			}
			return err
		},
	}
}
