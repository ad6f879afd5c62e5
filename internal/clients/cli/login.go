package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"rsc.io/qr"

	"stackyard/api"
	"stackyard/internal/clients/client"
	"stackyard/internal/clients/cmdline"
)

func loginCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "login [URL]",
		Short: "Sign in to a server",
		Long: `Sign in to a server: the command shows a code that you approve in a browser on this
or another device. It stores the access token in a file that only you can read.
You can be signed in to several servers. Commands use the last one, or --server.`,
		Example: `  stackyard login https://ci.example.com
  stackyard login --no-browser`,
		Args: cmdline.AtMost("server"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := client.HostsFile()
			if err != nil {
				return err
			}
			hosts, err := client.LoadHosts(path)
			if err != nil {
				return err
			}
			server, err := api.ParseURL(cmp.Or(strings.Join(args, ""), hosts.Current, "http://127.0.0.1:8080"))
			if err != nil {
				return cmdline.Usage(err)
			}
			scopes, _ := cmd.Flags().GetStringSlice("scopes")
			further, _ := cmd.Flags().GetStringSlice("add-scopes")
			scopes = append(scopes, further...)
			noBrowser, _ := cmd.Flags().GetBool("no-browser")
			login, err := signIn(cmd, server, scopes, cmd.Flags().Lookup("org").Value.String(), !noBrowser)
			if err != nil {
				return err
			}
			if err := storeLogin(server, login); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Signed in to %s as %s.\n", server, plain(login.Email))
			return err
		},
	}
	cmd.Flags().Bool("no-browser", false, "do not open a browser on this machine")
	cmd.Flags().StringSlice("scopes", client.Scopes, "scopes of the access token")
	cmd.Flags().StringSlice("add-scopes", nil, "further scopes, for example write_organizations to change members")
	cmd.Flags().String("org", "", "organization to preselect (slug)")
	return cmd
}

// storeLogin stores a login and makes its server the current one.
func storeLogin(server string, login client.Login) error {
	path, err := client.HostsFile()
	if err != nil {
		return err
	}
	err = client.ChangeHosts(path, func(h *client.Hosts) error {
		h.Add(server, login)
		return nil
	})
	if err != nil {
		return fmt.Errorf("store the access token: %w", err)
	}
	return nil
}

// signIn runs the device authorization grant.
func signIn(cmd *cobra.Command, server string, scopes []string, org string, browser bool) (client.Login, error) {
	device, err := client.BeginLogin(cmd.Context(), server, scopes, org)
	if err != nil {
		return client.Login{}, err
	}
	out := cmd.ErrOrStderr()
	target := cmp.Or(device.VerificationURLComplete, device.VerificationURL)
	fmt.Fprintf(out, "To sign in to %s, open\n\n    %s\n\nand approve this code:\n\n%s\n%s", server, plain(device.VerificationURL), banner(device.UserCode), code(target))
	if browser && isTerminal(cmd.InOrStdin()) {
		openBrowser(target) // if it fails, the address was printed
	}
	done := waitingIndicator(out, time.Until(device.Expiry))
	login, err := device.Wait(cmd.Context(), server)
	done()
	if err != nil {
		return login, err
	}
	c := &api.Client{URL: server, Token: login.AccessToken, UserAgent: cmdline.UserAgent()}
	var user struct {
		Email string `json:"email"`
	}
	err = c.Do(cmd.Context(), get, "/v2/user", nil, &user)
	if refusal, ok := errors.AsType[*api.Error](err); ok && refusal.Status == 403 {
		user.Email, err = "(unknown: the token lacks the scope read_user)", nil
	}
	login.Email = user.Email
	return login, err
}

// banner formats a code in large type.
func banner(code string) string {
	spaced := strings.Join(strings.Split(plain(code), ""), " ")
	bar := strings.Repeat("═", len([]rune(spaced))+4)
	return fmt.Sprintf("    ╔%s╗\n    ║  %s  ║\n    ╚%s╝\n", bar, spaced, bar)
}

// code returns a URL as a QR code of half-block characters. It draws the light modules, which is right on dark
// terminals; cameras also read the inverse.
func code(target string) string {
	image, err := qr.Encode(target, qr.L)
	if err != nil {
		return "" // too long for a QR code
	}
	var b strings.Builder
	const border = 2
	for y := -border; y < image.Size+border; y += 2 {
		b.WriteString("    ")
		for x := -border; x < image.Size+border; x++ {
			upper, lower := !image.Black(x, y), !image.Black(x, y+1)
			switch {
			case upper && lower:
				b.WriteRune('█')
			case upper:
				b.WriteRune('▀')
			case lower:
				b.WriteRune('▄')
			default:
				b.WriteRune(' ')
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// waitingIndicator shows how long the program still waits, until done is called.
func waitingIndicator(out io.Writer, limit time.Duration) (done func()) {
	if !isTerminal(out) {
		fmt.Fprintln(out, "Waiting for approval.")
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end := time.Now().Add(limit)
		for i := 0; ; i++ {
			frame := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")[i%10]
			fmt.Fprintf(out, "\r%c Waiting for approval, for %s more ", frame, time.Until(end).Round(time.Second))
			select {
			case <-ctx.Done():
				fmt.Fprint(out, "\r\033[K")
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
