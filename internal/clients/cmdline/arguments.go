package cmdline

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Exactly requires the named arguments, in order.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return Usage(fmt.Errorf("missing argument %s\nSee %s --help", names[len(args)], cmd.CommandPath()))
		}
		return AtMost(names...)(cmd, args)
	}
}

// AtMost allows the named arguments.
func AtMost(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= len(names) {
			return nil
		}
		return Usage(fmt.Errorf("unexpected argument %q\nSee %s --help", args[len(names)], cmd.CommandPath()))
	}
}

// Between requires the first few of the named arguments, and allows all.
func Between(required int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < required {
			return Exactly(names[:required]...)(cmd, args)
		}
		return AtMost(names...)(cmd, args)
	}
}

// Pairs parses KEY=VALUE flags.
func Pairs(flag string, texts []string) (map[string]string, error) {
	values := make(map[string]string, len(texts))
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, Usage(fmt.Errorf("--%s: %q is not KEY=VALUE", flag, text))
		}
		values[key] = value
	}
	return values, nil
}
