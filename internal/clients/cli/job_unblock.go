package cli

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
)

func jobUnblockCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unblock",
		Short: "Unblock a blocked job",
		Long: `Unblock a blocked job, with values for the fields of its step. On a terminal, the
command asks for the fields that no --field sets.`,
		Example: `  stackyard job unblock web 42 "Deploy?" --field region=eu`,
	}
	given := cmd.Flags().StringArray("field", nil, "field value as KEY=VALUE, repeatable")
	return onJob(cmd, func(r *remote, id string) error {
		values, err := cmdline.Pairs("field", *given)
		if err != nil {
			return err
		}
		if isTerminal(cmd.InOrStdin()) && !r.json {
			if err := r.askFields(id, values); err != nil {
				return err
			}
		}
		unblocked, err := call[job](r, put, map[string]any{"fields": values}, "/jobs/%/unblock", id)
		if err != nil {
			return err
		}
		return printItem(r, unblocked.Raw, line{"State", unblocked.Value.State})
	})
}

// askFields asks for the fields of a blocked job that have no value yet. An empty line takes the default.
func (r *remote) askFields(id string, values map[string]string) error {
	j, err := call[job](r, get, nil, "/jobs/%", id)
	if err != nil || j.Value.State != "blocked" {
		return err // the server says why a job cannot be unblocked
	}
	answers := bufio.NewReader(r.cmd.InOrStdin())
	for _, f := range j.Value.Fields {
		if _, ok := values[f.Key]; ok {
			continue
		}
		fmt.Fprint(r.cmd.ErrOrStderr(), question(f))
		text, err := answers.ReadString('\n')
		if err != nil {
			return fmt.Errorf("--field %s=VALUE is missing", f.Key)
		}
		if text = strings.TrimSpace(text); text != "" {
			values[f.Key] = text
		}
	}
	return nil
}

// question asks for a field.
func question(f api.Field) string {
	text := plain(f.Label)
	if len(f.Options) > 0 {
		text += " (" + plain(strings.Join(f.Options, ", ")) + ")"
	}
	switch {
	case len(f.Default) > 0:
		text += " [" + plain(strings.Join(f.Default, ", ")) + "]"
	case !f.Required:
		text += " [none]"
	}
	return text + ": "
}
