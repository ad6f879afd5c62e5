// Package cli has the commands that call a server: builds, pipelines, queues and the rest of the API.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/client"
	"stackyard/internal/clients/cmdline"
)

// A remote is the server that a client command calls.
type remote struct {
	*api.Client
	ctx context.Context
	cmd *cobra.Command
	org string // slug from --org or STACKYARD_ORG; may be empty

	inCluster cluster // the one of --cluster, once it is known

	out      io.Writer
	terminal bool // out is a terminal
	color    bool
	pager    func()     // closes the pager; nil: none
	json     bool       // print API responses as JSON
	fields   []string   // of --json; nil: all
	jq       *gojq.Code // of --jq; nil: none
	web      bool       // open the page instead of printing
	stored   bool       // the token is from stackyard login
}

// remoteCommand makes a command call a server: it adds --server, --org and --json.
func remoteCommand(cmd *cobra.Command, run func(r *remote, args []string) error) *cobra.Command {
	flags := cmd.Flags()
	flags.String("server", "", "server URL (default: the last one you signed in to) [STACKYARD_SERVER]")
	flags.String("org", "", "organization slug (default: the only one) [STACKYARD_ORG]")
	addOutputFlags(cmd)
	cmd.RegisterFlagCompletionFunc("org", completeFlag((*remote).organizationSlugs))
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = complete
	}
	expected := cmd.Args
	if expected == nil {
		expected = cmdline.AtMost()
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		args, _ = fieldsArgument(cmd, args, expected)
		return expected(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		args, fields := fieldsArgument(cmd, args, expected)
		r, err := connect(cmd)
		if err != nil {
			return err
		}
		if err := r.setOutput(cmd, fields); err != nil {
			return err
		}
		err = r.signInAgain(run(r, args), func() error { return run(r, args) })
		if r.pager != nil {
			r.pager()
		}
		return err
	}
	return cmd
}

// signInAgain offers to sign in again if the stored login has expired, and then runs the command again.
func (r *remote) signInAgain(err error, again func() error) error {
	refusal, ok := errors.AsType[*api.Error](err)
	if ok && r.stored && refusal.Status == http.StatusForbidden {
		if _, scope, missing := strings.Cut(refusal.Message, "needs the scope "); missing {
			return fmt.Errorf("%w; sign in with it: stackyard login %s --add-scopes %s", err, r.URL, scope)
		}
	}
	if !ok || refusal.Status != http.StatusUnauthorized || !r.stored || !isTerminal(r.cmd.InOrStdin()) {
		return err
	}
	if !r.ask(fmt.Sprintf("Your login at %s has expired. Sign in again?", r.URL), true) {
		return err
	}
	login, err := signIn(r.cmd, r.URL, client.Scopes, r.org, true)
	if err != nil {
		return err
	}
	if err := storeLogin(r.URL, login); err != nil {
		return err
	}
	r.Token = login.AccessToken
	return again()
}

// connect returns the server with STACKYARD_TOKEN or the stored login.
func connect(cmd *cobra.Command) (*remote, error) {
	flags := cmd.Flags()
	r := &remote{
		Client: &api.Client{UserAgent: cmdline.UserAgent(), Token: os.Getenv("STACKYARD_TOKEN"), Waiting: announceWait(cmd)},
		ctx:    cmd.Context(),
		cmd:    cmd,
		out:    cmd.OutOrStdout(),
		org:    cmp.Or(flags.Lookup("org").Value.String(), os.Getenv("STACKYARD_ORG")),
	}
	path, err := client.HostsFile()
	if err != nil {
		return nil, err
	}
	hosts, err := client.LoadHosts(path)
	if err != nil {
		return nil, err
	}
	named := cmp.Or(flags.Lookup("server").Value.String(), os.Getenv("STACKYARD_SERVER"), hosts.Current)
	if named == "" {
		return nil, cmdline.Usage(errors.New("no server configured; run \"stackyard login URL\" or set STACKYARD_SERVER and STACKYARD_TOKEN"))
	}
	if r.URL, err = api.ParseURL(named); err != nil {
		return nil, cmdline.Usage(err)
	}
	if r.Token != "" {
		return r, nil
	}
	login, err := client.Renew(r.ctx, path, r.URL)
	if err != nil {
		return nil, err
	}
	if login.AccessToken == "" {
		return nil, fmt.Errorf("not signed in to %s: run stackyard login %s", r.URL, r.URL)
	}
	r.Token, r.stored = login.AccessToken, true
	return r, nil
}

// announceWait returns a function that prints for how long the client waits for a busy server, on a terminal.
func announceWait(cmd *cobra.Command) func(why string, wait time.Duration) {
	return func(why string, wait time.Duration) {
		if out := cmd.ErrOrStderr(); isTerminal(out) {
			fmt.Fprintf(out, "%s; trying again in %s\n", why, wait.Round(time.Second))
		}
	}
}

// under returns a path below the organization's. Each % of the format is replaced by a segment.
func (r *remote) under(format string, segments ...string) (string, error) {
	if r.org == "" {
		orgs, err := api.All[organization](r.ctx, r.Client, "/v2/organizations", 100)
		if err != nil {
			return "", err
		}
		if len(orgs.Items) != 1 {
			return "", cmdline.Usage(fmt.Errorf("--org is required; your organizations: %s", slugs(orgs.Items)))
		}
		r.org = orgs.Items[0].Slug
	}
	path := "/v2/organizations/" + url.PathEscape(r.org)
	for _, s := range segments {
		before, after, _ := strings.Cut(format, "%")
		path, format = path+before+url.PathEscape(s), after
	}
	return path + format, nil
}

func slugs(orgs []organization) string {
	if len(orgs) == 0 {
		return "your token reaches none"
	}
	var names []string
	for _, o := range orgs {
		names = append(names, o.Slug)
	}
	return "there are " + strings.Join(names, ", ")
}

// call calls the API below the organization's path and returns the response.
func call[T any](r *remote, method string, body any, format string, segments ...string) (api.Item[T], error) {
	path, err := r.under(format, segments...)
	if err != nil {
		return api.Item[T]{}, err
	}
	item, err := api.One[T](r.ctx, r.Client, method, path, body)
	return item, r.explain(err, format, segments)
}

// perform calls the API and prints a confirmation; with --json it prints nothing.
func (r *remote) perform(method string, body any, done string, format string, segments ...string) error {
	path, err := r.under(format, segments...)
	if err != nil {
		return err
	}
	if err := r.Do(r.ctx, method, path, body, nil); err != nil {
		return r.explain(err, format, segments)
	}
	return r.println(done)
}

// println prints a message, unless --json is set.
func (r *remote) println(message string) error {
	if r.json {
		return nil
	}
	_, err := fmt.Fprintln(r.out, message)
	return err
}

// listUnder lists a collection below the organization's path.
func listUnder[T any](r *remote, format string, segments ...string) (api.List[T], error) {
	return listMost[T](r, 10_000, format, segments...)
}

// listMost is listUnder with a limit.
func listMost[T any](r *remote, most int, format string, segments ...string) (api.List[T], error) {
	path, err := r.under(format, segments...)
	if err != nil {
		return api.List[T]{}, err
	}
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	list, err := api.All[T](r.ctx, r.Client, path+separator+"per_page=100", most)
	return list, r.explain(err, format, segments)
}

// cluster returns the cluster of --cluster, by id or name, or the only one.
func (r *remote) cluster(cmd *cobra.Command) (cluster, error) {
	named := cmd.Flags().Lookup("cluster").Value.String()
	list, err := listUnder[cluster](r, "/clusters")
	if err != nil {
		return cluster{}, err
	}
	if named == "" && len(list.Items) == 1 {
		return list.Items[0], nil
	}
	var names, plainNames []string
	for _, c := range list.Items {
		if named != "" && (c.ID == named || strings.EqualFold(c.Name, named)) {
			return c, nil
		}
		names, plainNames = append(names, fmt.Sprintf("%q", c.Name)), append(plainNames, c.Name)
	}
	slices.Sort(names)
	known := strings.Join(names, ", ")
	if len(names) == 0 {
		known = "none"
	}
	if named == "" {
		return cluster{}, cmdline.Usage(fmt.Errorf("--cluster is required; clusters: %s", known))
	}
	if near := nearest(named, plainNames); near != "" {
		return cluster{}, fmt.Errorf("cluster %q not found; did you mean %q?", named, near)
	}
	return cluster{}, fmt.Errorf("cluster %q not found; clusters: %s", named, known)
}

func addClusterFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().String("cluster", "", "cluster name or id (default: the only one)")
	cmd.RegisterFlagCompletionFunc("cluster", completeFlag((*remote).clusterNames))
	return cmd
}

const (
	get    = http.MethodGet
	post   = http.MethodPost
	put    = http.MethodPut
	patch  = http.MethodPatch
	remove = http.MethodDelete
)
