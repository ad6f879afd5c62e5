package agentcli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/runner/checkout"
	"stackyard/internal/clients/runner/plugin"
)

// pluginsLock reads the file of --plugins-lock.
func (p *agentParser) pluginsLock() plugin.Lock {
	file := p.values["plugins-lock"]
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err == nil {
		var lock plugin.Lock
		if lock, err = plugin.ParseLock(string(text)); err == nil {
			return lock
		}
		err = fmt.Errorf("%s: %w", file, err)
	}
	p.wrong("plugins-lock", "%v", err)
	return plugin.Lock{} // allows none
}

func lockPluginsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lock-plugins PLUGIN...",
		Short: "Print the lines of a lock file for plugins",
		Long: `Fetch plugins and print a line with the checksum of each, for the file of
"stackyard agent --plugins-lock". Agents with that file run no other plugins.`,
		Example: "  stackyard tool lock-plugins docker#v5.12.0 cache#v1.3.0 >plugins.lock",
		Args:    cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmdline.Usage(errors.New("missing argument PLUGIN, such as docker#v5.12.0"))
		}
		list, err := json.Marshal(args)
		if err != nil {
			return err
		}
		plugins, err := plugin.Parse(string(list))
		if err != nil {
			return cmdline.Usage(err)
		}
		for _, p := range plugins {
			sum, err := fetchSum(cmd, p)
			if err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), p.Line(sum))
		}
		return nil
	}
	return cmd
}

// fetchSum clones a plugin and returns the checksum of its files.
func fetchSum(cmd *cobra.Command, p plugin.Plugin) (string, error) {
	if p.Vendored() || p.Version == "" {
		return "", errors.New("only plugins with a version can be locked, such as docker#v5.12.0")
	}
	if err := checkout.CheckTransport(p.Repository()); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "stackyard-plugin-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for _, args := range [][]string{
		{"clone", "--quiet", "--no-checkout", "--", p.Repository(), dir},
		{"-C", dir, "checkout", "--quiet", "--detach", p.Version},
	} {
		git := exec.CommandContext(cmd.Context(), "git", args...)
		git.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0")
		if out, err := git.CombinedOutput(); err != nil {
			return "", fmt.Errorf("git: %w: %s", err, out)
		}
	}
	return plugin.Sum(dir)
}
