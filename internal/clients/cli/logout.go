package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/client"
	"stackyard/internal/clients/cmdline"
)

func logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logout [URL]",
		Short: "Sign out: revoke and remove the access token",
		Args:  cmdline.AtMost("server"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := client.HostsFile()
			if err != nil {
				return err
			}
			var server string
			var revoked error
			err = client.ChangeHosts(path, func(h *client.Hosts) error {
				if server = h.Current; len(args) > 0 {
					if server, err = api.ParseURL(args[0]); err != nil {
						return cmdline.Usage(err)
					}
				}
				login, ok := h.Logins[server]
				if !ok {
					return notSignedIn(server, h)
				}
				// Remove the token even if the server cannot be reached.
				revoked = login.Revoke(cmd.Context(), server)
				h.Remove(server)
				return nil
			})
			if err != nil {
				return err
			}
			if revoked != nil {
				return fmt.Errorf("the access token was removed here, but not revoked: %w", revoked)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Signed out of %s.\n", server)
			return err
		},
	}
}

func notSignedIn(server string, h *client.Hosts) error {
	if len(h.Logins) == 0 {
		return errors.New("not signed in to any server")
	}
	return fmt.Errorf("not signed in to %s, but to %s", server, strings.Join(h.URLs(), ", "))
}

func whoamiCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show the signed-in user and the token's scopes",
	}
	return remoteCommand(cmd, func(r *remote, _ []string) error {
		user, err := api.One[struct{ Name, Email string }](r.ctx, r.Client, get, "/v2/user", nil)
		if err != nil {
			return err
		}
		if r.json {
			return r.printJSON(user.Raw)
		}
		token, err := api.One[struct{ Scopes []string }](r.ctx, r.Client, get, "/v2/access-token", nil)
		if err != nil {
			return err
		}
		return printItem(r, user.Raw,
			line{"Server", r.URL},
			line{"User", fmt.Sprintf("%s <%s>", user.Value.Name, user.Value.Email)},
			line{"Scopes", strings.Join(token.Value.Scopes, " ")},
		)
	})
}
