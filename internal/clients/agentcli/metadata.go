package agentcli

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/runner/api"
)

// exitAbsent is the exit status if a key is not set.
const exitAbsent = 100

func agentMetaDataCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "meta-data", Short: "Share values between jobs of the build"}
	cmd.AddCommand(metaDataSetCommand(), metaDataSetBatchCommand(), metaDataGetCommand(), metaDataExistsCommand(), metaDataKeysCommand())
	return cmd
}

func metaDataSetCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "set KEY [VALUE]", Short: "Set a value", Long: "Set a value. Reads standard input if VALUE is missing.", Args: cmdline.Between(1, "KEY", "VALUE")}
	return insideCommand(cmd, func(s *script, args []string) error {
		value, err := s.text(args, 1, "VALUE")
		if err != nil {
			return err
		}
		return s.API.SetMetaData(s.ctx, s.ID, api.MetaDatum{Key: args[0], Value: value})
	})
}

func metaDataSetBatchCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "set-batch KEY=VALUE…", Short: "Set several values at once, all or none", Args: cobra.ArbitraryArgs}
	return insideCommand(cmd, func(s *script, args []string) error {
		var items []api.MetaDatum
		for _, arg := range args {
			key, value, ok := strings.Cut(arg, "=")
			if !ok || key == "" {
				return cmdline.Usage(fmt.Errorf("%q is not KEY=VALUE", arg))
			}
			items = append(items, api.MetaDatum{Key: key, Value: value})
		}
		if len(items) == 0 {
			return cmdline.Usage(fmt.Errorf("missing argument KEY=VALUE"))
		}
		return s.API.SetMetaData(s.ctx, s.ID, items...)
	})
}

func metaDataGetCommand() *cobra.Command {
	cmd := addBuildFlag(&cobra.Command{Use: "get KEY", Short: "Print a value", Args: cmdline.Exactly("KEY")})
	cmd.Flags().String("default", "", "value to print if the key is not set, instead of failing")
	return insideCommand(cmd, func(s *script, args []string) error {
		value, err := s.API.MetaData(s.ctx, s.place(), args[0])
		if api.StatusOf(err) == http.StatusNotFound && s.cmd.Flags().Changed("default") {
			return s.print(s.flag("default"))
		}
		if err != nil {
			return err
		}
		return s.print(value)
	})
}

func metaDataExistsCommand() *cobra.Command {
	cmd := addBuildFlag(&cobra.Command{Use: "exists KEY", Short: "Check whether a key is set: exit status 0 if it is, 100 if not", Args: cmdline.Exactly("KEY")})
	return insideCommand(cmd, func(s *script, args []string) error {
		exists, err := s.API.HasMetaData(s.ctx, s.place(), args[0])
		if err != nil || exists {
			return err
		}
		return &cmdline.StatusError{Status: exitAbsent, Err: fmt.Errorf("there is no value %q", args[0])}
	})
}

func metaDataKeysCommand() *cobra.Command {
	cmd := addBuildFlag(&cobra.Command{Use: "keys", Short: "List keys"})
	return insideCommand(cmd, func(s *script, _ []string) error {
		keys, err := s.API.MetaDataKeys(s.ctx, s.place())
		if err != nil || len(keys) == 0 {
			return err
		}
		return s.print(strings.Join(keys, "\n"))
	})
}

// place selects the build of --build, or the job's own.
func (s *script) place() api.Place {
	if build := s.flag("build"); build != "" {
		return api.InBuild(build)
	}
	return api.InJob(s.ID)
}
