package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
)

type connection struct {
	ID, Host, Provider, Authentication string
	APIURL                             string `json:"api_url"`
	AppID                              string `json:"app_id"`
	InstallationID                     string `json:"installation_id"`
	HasCloneToken                      bool   `json:"has_clone_token"`
}

func connectionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "connection", Short: "Manage connections to source hosts"}
	cmd.AddCommand(connectionListCommand(), connectionViewCommand(), connectionCreateCommand(), connectionEditCommand(), connectionTestCommand(), connectionDeleteCommand())
	return cmd
}

func connectionListCommand() *cobra.Command {
	return remoteCommand(&cobra.Command{
		Use:   "list",
		Short: "List connections to source hosts",
	}, func(r *remote, _ []string) error {
		list, err := listUnder[connection](r, "/source-connections")
		if err != nil {
			return err
		}
		return printTable(r, list, "There are no connections to source hosts.",
			column[connection]{"host", func(c connection) string { return c.Host }},
			column[connection]{"provider", func(c connection) string { return c.Provider }},
			column[connection]{"authentication", func(c connection) string { return c.Authentication }},
			column[connection]{"api url", func(c connection) string { return c.APIURL }},
		)
	})
}

// onConnection makes a command act on the connection that its argument names.
func onConnection(cmd *cobra.Command, act func(r *remote, c connection) error) *cobra.Command {
	cmd.Args = cmdline.Exactly("HOST")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		c, err := findConnection(r, args[0])
		if err != nil {
			return err
		}
		return act(r, c)
	})
}

// findConnection finds a connection by its host or id.
func findConnection(r *remote, named string) (connection, error) {
	list, err := listUnder[connection](r, "/source-connections")
	if err != nil {
		return connection{}, err
	}
	for _, c := range list.Items {
		if c.ID == named || strings.EqualFold(c.Host, named) {
			return c, nil
		}
	}
	return connection{}, fmt.Errorf("there is no connection to %q; see stackyard connection list", named)
}

func connectionViewCommand() *cobra.Command {
	return onConnection(&cobra.Command{
		Use:     "view HOST",
		Aliases: []string{"show"},
		Short:   "Show a connection",
	}, func(r *remote, c connection) error {
		shown, err := call[connection](r, get, nil, "/source-connections/%", c.ID)
		if err != nil {
			return err
		}
		v := shown.Value
		lines := []line{{"Host", v.Host}, {"Provider", v.Provider}, {"API URL", v.APIURL}, {"Authentication", v.Authentication}, {"App", v.AppID}, {"Installation", v.InstallationID}}
		if v.HasCloneToken {
			lines = append(lines, line{"Clone token", "yes"})
		}
		return printItem(r, shown.Raw, append(lines, line{"Id", v.ID})...)
	})
}

// connectionFlags adds the flags of the attributes, and returns a function that returns the fields that were given.
// Secrets are read from files, because other users of a machine see arguments.
func connectionFlags(cmd *cobra.Command) func() (map[string]any, error) {
	flags := cmd.Flags()
	flags.String("provider", "", "github, github_enterprise, gitlab, gitlab_ee, bitbucket, bitbucket_server or gitea (default: from the host's name)")
	flags.String("api-url", "", "URL of the host's REST API (default: the provider's usual one)")
	flags.String("token-file", "", "file with the token of the server; - reads standard input")
	flags.String("clone-token-file", "", "file with the token that jobs clone with; - reads standard input")
	flags.String("app-id", "", "id of a GitHub App, instead of a token")
	flags.String("installation-id", "", "id of the app's installation")
	flags.String("private-key-file", "", "PEM file with the app's private key; - reads standard input")
	return func() (map[string]any, error) {
		body := map[string]any{}
		for flag, field := range map[string]string{"provider": "provider", "api-url": "api_url", "app-id": "app_id", "installation-id": "installation_id"} {
			if flags.Changed(flag) {
				body[field] = flags.Lookup(flag).Value.String()
			}
		}
		for flag, field := range map[string]string{"token-file": "token", "clone-token-file": "clone_token", "private-key-file": "private_key"} {
			if !flags.Changed(flag) {
				continue
			}
			text, err := readSecretFile(cmd, flags.Lookup(flag).Value.String())
			if err != nil {
				return nil, cmdline.Usage(fmt.Errorf("--%s: %w", flag, err))
			}
			body[field] = text
		}
		return body, nil
	}
}

// readSecretFile reads a small file, or standard input for -.
func readSecretFile(cmd *cobra.Command, name string) (string, error) {
	const most = 64 << 10
	in := cmd.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	content, err := io.ReadAll(io.LimitReader(in, most))
	return strings.TrimSpace(string(content)), err
}

func connectionCreateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create HOST",
		Short: "Connect a source host",
		Example: `  stackyard connection create github.com --token-file token.txt
  stackyard connection create git.example.com --provider gitea --token-file -
  stackyard connection create github.com --app-id 7 --installation-id 9 --private-key-file app.pem`,
		Args: cmdline.Exactly("HOST"),
	}
	fields := connectionFlags(cmd)
	return remoteCommand(cmd, func(r *remote, args []string) error {
		body, err := fields()
		if err != nil {
			return err
		}
		body["host"] = args[0]
		made, err := call[connection](r, post, body, "/source-connections")
		if err != nil {
			return err
		}
		return printItem(r, made.Raw, line{"Created", made.Value.Host}, line{"Provider", made.Value.Provider}, line{"API URL", made.Value.APIURL}, line{"Id", made.Value.ID})
	})
}

func connectionEditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "edit HOST",
		Aliases: []string{"update"},
		Short:   "Change the given attributes of a connection",
		Example: `  stackyard connection edit github.com --token-file new-token.txt`,
		Args:    cmdline.Exactly("HOST"),
	}
	fields := connectionFlags(cmd)
	return remoteCommand(cmd, func(r *remote, args []string) error {
		body, err := fields()
		if err != nil {
			return err
		}
		if len(body) == 0 {
			return cmdline.Usage(fmt.Errorf("nothing to change\nSee %s --help", cmd.CommandPath()))
		}
		c, err := findConnection(r, args[0])
		if err != nil {
			return err
		}
		changed, err := call[connection](r, patch, body, "/source-connections/%", c.ID)
		if err != nil {
			return err
		}
		return printItem(r, changed.Raw, line{"Changed", changed.Value.Host}, line{"Authentication", changed.Value.Authentication})
	})
}

func connectionTestCommand() *cobra.Command {
	return onConnection(&cobra.Command{
		Use:   "test HOST",
		Short: "Check that the host accepts the credentials",
	}, func(r *remote, c connection) error {
		result, err := call[struct {
			OK      bool
			Message string
		}](r, post, nil, "/source-connections/%/test", c.ID)
		if err != nil {
			return err
		}
		if !result.Value.OK {
			return fmt.Errorf("%s", result.Value.Message)
		}
		return printItem(r, result.Raw, line{"OK", result.Value.Message})
	})
}

func connectionDeleteCommand() *cobra.Command {
	return onConnection(addYesFlag(&cobra.Command{
		Use:   "delete HOST",
		Short: "Delete a connection",
	}), func(r *remote, c connection) error {
		if err := r.confirm("Delete the connection to " + c.Host); err != nil {
			return err
		}
		return r.perform(remove, nil, "Deleted the connection to "+c.Host+".", "/source-connections/%", c.ID)
	})
}
