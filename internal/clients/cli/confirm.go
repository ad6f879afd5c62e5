package cli

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
)

// addYesFlag adds --yes to a command that destroys something.
func addYesFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolP("yes", "y", false, "do not ask for confirmation")
	return cmd
}

// confirm asks whether to do what cannot be undone, for example "Delete the queue linux". Without a terminal, --yes is
// required.
func (r *remote) confirm(action string) error {
	if r.cmd.Flags().Lookup("yes").Value.String() == "true" {
		return nil
	}
	if !isTerminal(r.cmd.InOrStdin()) {
		return cmdline.Usage(fmt.Errorf("%s? Confirm it with --yes", plain(action)))
	}
	if !r.ask(plain(action)+"?", false) {
		return &cmdline.StatusError{Status: cmdline.ExitFailed, Err: fmt.Errorf("nothing was changed")}
	}
	return nil
}

// ask asks a question on the terminal. otherwise is the answer to an empty line.
func (r *remote) ask(question string, otherwise bool) bool {
	choices := " [y/N] "
	if otherwise {
		choices = " [Y/n] "
	}
	fmt.Fprint(r.cmd.ErrOrStderr(), question+choices)
	text, err := bufio.NewReader(r.cmd.InOrStdin()).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "y", "yes":
		return true
	case "":
		return otherwise && err == nil
	}
	return false
}
