package agentcli

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/stackctl/verify"
)

var verifySettings = []cmdline.Setting{
	{Flag: "endpoint", Variable: "SERVICE_AGENT_ENDPOINT", Unset: "http://127.0.0.1:8080/v3", Usage: "the server's agent URL, with /v3 at its end"},
	{Flag: "token", Variable: "SERVICE_AGENT_TOKEN", Usage: "agent token of a cluster; required", Secret: true},
	{Flag: "rest-token", Usage: "a user's access token, to make jobs with (default: rules about jobs are skipped)", Secret: true},
}

func stackVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check a server against the stacks API protocol",
		Long: `Check a server against the rules of the stacks API. Each rule is printed with pass,
fail or skip; a failed rule with the expected result, the actual result and the
call. The exit status is 0 only if no rule failed.

With only an agent token, the command checks the rules that need no job. With an
access token of a user who may manage clusters and pipelines, it also creates jobs:
it adds a queue to the token's cluster, a second cluster, and a pipeline for each,
and removes them at the end. Other jobs are not affected.

It takes about half a minute, since some rules are about time.`,
		Example: `  stackyard stack verify --endpoint https://ci.example.com/v3 --token svcct_…
  stackyard stack verify --rest-token svcua_… --only 'tokens.*'
  stackyard stack verify --list`,
		RunE: runStackVerify,
	}
	cmdline.AddFlags(cmd, verifySettings)
	flags := cmd.Flags()
	flags.String("queue", "__default__", "queue for checks that need no job")
	flags.Bool("quota", false, "also check the quota of active stacks (uses it up briefly)")
	flags.String("only", "", "run only rules matching this pattern, such as 'register.*'")
	flags.Bool("list", false, "list rules without running them")
	flags.Bool("json", false, "print the report as JSON")
	return cmd
}

func runStackVerify(cmd *cobra.Command, _ []string) error {
	values, err := cmdline.Gather(cmd, verifySettings, nil)
	if err != nil {
		return cmdline.Usage(err)
	}
	config := verify.Config{Endpoint: values["endpoint"], Token: values["token"], RESTToken: values["rest-token"]}
	flags := cmd.Flags()
	config.Queue, _ = flags.GetString("queue")
	config.Quota, _ = flags.GetBool("quota")
	config.Only, _ = flags.GetString("only")
	onlyList, _ := flags.GetBool("list")
	asJSON, _ := flags.GetBool("json")
	rules, err := verify.Matching(config.Only)
	if err != nil {
		return cmdline.Usage(fmt.Errorf("--only: %w", err))
	}
	if onlyList {
		return verify.WriteRules(cmd.OutOrStdout(), rules)
	}
	if err := checkVerifyConfig(config); err != nil {
		return cmdline.Usage(err)
	}
	return runVerify(cmd, config, cmd.OutOrStdout(), asJSON)
}

func checkVerifyConfig(c verify.Config) error {
	var problems []error
	if u, err := url.Parse(c.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || !strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v3") {
		problems = append(problems, fmt.Errorf("--endpoint: %q is not a URL such as https://ci.example.com/v3", c.Endpoint))
	}
	if c.Token == "" {
		problems = append(problems, errors.New("--token: an agent token is required [SERVICE_AGENT_TOKEN]"))
	}
	return errors.Join(problems...)
}

// runVerify checks the rules and prints each result, or a JSON report at the end.
func runVerify(cmd *cobra.Command, config verify.Config, out io.Writer, asJSON bool) error {
	report := &verify.Report{Endpoint: config.Endpoint}
	var printed error
	err := verify.Run(cmd.Context(), config, func(r verify.Result) {
		report.Add(r)
		if !asJSON && printed == nil {
			printed = report.WriteText(out)
		}
	})
	if asJSON {
		printed = report.WriteJSON(out)
	} else if printed == nil {
		_, printed = fmt.Fprintf(out, "\n%s\n", report.Summary())
	}
	if err == nil && report.Failed > 0 {
		err = fmt.Errorf("%d of %d rules failed", report.Failed, len(report.Results))
	}
	return errors.Join(err, printed)
}
