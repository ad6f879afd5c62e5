package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"stackyard/api"
)

// Secrets are read from files, because other users of a machine see arguments.
var connections = &resource{
	noun: "connection", about: "connections to source hosts", path: "/source-connections", arg: "HOST", names: []string{"host"},
	columns: fields("host", "provider", "authentication", "api_url api url"),
	lines:   fields("host Host", "provider Provider", "api_url API URL", "authentication Authentication", "app_id App", "installation_id Installation", "has_clone_token Clone token", "id Id"),
	inputs: []input{
		{flag: "provider", field: "provider", usage: "github, github_enterprise, gitlab, gitlab_ee, bitbucket, bitbucket_server or gitea (default: from the host's name)"},
		{flag: "api-url", field: "api_url", usage: "URL of the host's REST API (default: the provider's usual one)"},
		{flag: "token-file", field: "token", usage: "file with the token of the server; - reads standard input", kind: fileInput},
		{flag: "clone-token-file", field: "clone_token", usage: "file with the token that jobs clone with; - reads standard input", kind: fileInput},
		{flag: "app-id", field: "app_id", usage: "id of a GitHub App, instead of a token"},
		{flag: "installation-id", field: "installation_id", usage: "id of the app's installation"},
		{flag: "private-key-file", field: "private_key", usage: "PEM file with the app's private key; - reads standard input", kind: fileInput},
	},
	creates: "host", createShort: "Connect a source host",
	example: map[string]string{
		"create": `  stackyard connection create github.com --token-file token.txt
  stackyard connection create git.example.com --provider gitea --token-file -
  stackyard connection create github.com --app-id 7 --installation-id 9 --private-key-file app.pem`,
		"edit": `  stackyard connection edit github.com --token-file new-token.txt`,
	},
}

func connectionTestCommand() *cobra.Command {
	return connections.action(&cobra.Command{Use: "test", Short: "Check that the host accepts the credentials"}, func(r *remote, one string, _ object) error {
		result, err := api.One[struct {
			OK      bool
			Message string
		}](r.ctx, r.Client, post, one+"/test", nil)
		if err != nil {
			return err
		}
		if !result.Value.OK {
			return errors.New(result.Value.Message)
		}
		return printItem(r, result.Raw, line{"OK", result.Value.Message})
	})
}
