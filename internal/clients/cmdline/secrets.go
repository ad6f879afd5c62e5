package cmdline

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stackyard/internal/clients/handoff"
)

// HideSecrets hides the secret settings of a command from the jobs that it runs, possibly as the same user. It
// removes them from the arguments and the environment, for which the process replaces itself, and protects the
// memory of the process.
func HideSecrets(cmd *cobra.Command, settings []Setting) error {
	err := takeSecrets(cmd, settings, true)
	if err == nil {
		err = handoff.Protect()
	}
	if err != nil {
		return fmt.Errorf("hide secrets from jobs: %w", err)
	}
	return nil
}

// HideArguments hides the secret settings of a command from lists of processes: it removes them from the arguments, for
// which the process replaces itself.
func HideArguments(cmd *cobra.Command, settings []Setting) error {
	if err := takeSecrets(cmd, settings, false); err != nil {
		return fmt.Errorf("hide secret arguments: %w", err)
	}
	return nil
}

// takeSecrets sets the flags of the secrets that the process received from the one that it replaced. If there was none,
// it replaces this process with one that has no secrets in its arguments and environment.
func takeSecrets(cmd *cobra.Command, settings []Setting, environment bool) error {
	secrets, err := handoff.Receive()
	if err != nil {
		return err
	}
	if secrets == nil {
		return replaceWithout(cmd, settings, environment)
	}
	for flag, value := range secrets {
		if err := cmd.Flags().Set(flag, value); err != nil {
			return err
		}
	}
	return nil
}

// replaceWithout replaces the process if its arguments, or its environment where that counts, contain secrets.
func replaceWithout(cmd *cobra.Command, settings []Setting, environment bool) error {
	flags, variables := map[string]bool{}, map[string]bool{}
	secrets := map[string]string{}
	for _, s := range settings {
		if !s.Secret {
			continue
		}
		if flag := cmd.Flags().Lookup(s.Flag); flag.Changed {
			flags[s.Flag], secrets[s.Flag] = true, flag.Value.String()
		}
		for _, name := range s.variables() {
			if value := os.Getenv(name); value != "" {
				variables[name] = true
				if name == s.env() && !flags[s.Flag] {
					secrets[s.Flag] = value
				}
			}
		}
	}
	if len(flags) == 0 && (len(variables) == 0 || !environment) {
		return nil
	}
	env := slices.DeleteFunc(os.Environ(), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		return variables[name]
	})
	return handoff.Exec(argumentsWithout(cmd, flags), env, secrets)
}

// variables returns the environment variables of the setting: its own and the published agent's.
func (s Setting) variables() []string {
	own := s.env()
	if short, ok := strings.CutPrefix(own, "SERVICE_"); ok {
		return []string{own, "BUILDKITE_" + short}
	}
	return []string{own}
}

// argumentsWithout returns the arguments of a command without some flags.
func argumentsWithout(cmd *cobra.Command, left map[string]bool) []string {
	args := strings.Fields(cmd.CommandPath())
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			if !left[f.Name] {
				args = append(args, "--"+f.Name+"="+value)
			}
		}
	})
	return args
}
