package agentcli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/runner"
	"stackyard/internal/clients/stackctl"
)

var stackSettings = slices.Concat(connectionSettings, []cmdline.Setting{JobUserSetting})

// StackCommand returns the command that runs a stack, with subcommands.
func StackCommand(others []*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stack",
		Short: "Run a stack: jobs as local processes, or with your own command",
		Long: `Run the reference stack: it registers with the stacks API, polls queues, reserves
jobs, and starts one ephemeral agent per job, with a token for that job only.

A job whose step has agent rules (agents: {gpu: "yes"}) runs only if --tags
matches every rule.

Agents are local processes. With --command they are started by a shell command in
which {{.JobID}}, {{.Queue}} and {{.Endpoint}} are replaced, and which must run
until the agent has ended. Its environment puts an agent into single-job
acquisition mode (SERVICE_AGENT_TOKEN, SERVICE_AGENT_ACQUIRE_JOB and
SERVICE_AGENT_ENDPOINT, and the same as BUILDKITE_AGENT_…).

After the first SIGTERM or SIGINT the stack accepts no more jobs, waits for the
running ones, and de-registers. The second signal stops the agents.`,
		Example: `  stackyard stack --key builders --queue linux --queue macos --max 8
  stackyard stack --key containers --command 'docker run --rm -e SERVICE_AGENT_TOKEN
    -e SERVICE_AGENT_ACQUIRE_JOB -e SERVICE_AGENT_ENDPOINT example/agent'`,
		RunE: runStack,
	}
	cmdline.AddFlags(cmd, stackSettings)
	addStackFlags(cmd, "stackyard-HOST", runtime.NumCPU())
	cmd.Flags().String("command", "", "command that starts an agent (default: a local process)")
	cmd.AddCommand(stackKubernetesCommand(), stackVerifyCommand())
	cmd.AddCommand(others...)
	return cmd
}

// addStackFlags adds the flags that all stacks have.
func addStackFlags(cmd *cobra.Command, key string, most int) {
	flags := cmd.Flags()
	flags.String("key", "", "key of the stack (default: "+key+")")
	flags.StringArray("queue", nil, "key of a queue to serve, repeatable (default: the cluster's default queue)")
	flags.StringArray("tags", nil, "tags as key=value, repeatable; jobs with other agent rules are not run [SERVICE_AGENT_TAGS]")
	flags.Int("max", most, "maximum number of concurrent jobs")
	flags.String("metrics-listen", "", "address for Prometheus metrics, for example 127.0.0.1:9090")
	flags.String("log-format", "", "text or json (default: text on a terminal, else json)")
}

func runStack(cmd *cobra.Command, _ []string) error {
	if err := cmdline.HideSecrets(cmd, stackSettings); err != nil {
		return err
	}
	config, address, err := stackConfig(cmd)
	if err != nil {
		return cmdline.Usage(err)
	}
	stop, err := measureStack(&config, address)
	if err != nil {
		return err
	}
	defer stop()
	ctx, drain, done := twoSignals(cmd.Context(), config.Log)
	defer done()
	return stackctl.New(config).Run(drain, ctx)
}

// measureStack gives a stack metrics, and serves them if there is an address.
func measureStack(c *stackctl.Config, address string) (stop func(), err error) {
	registry := prometheus.NewRegistry()
	c.Metrics = stackctl.NewMetrics(registry)
	c.API.Retried = c.Metrics.Retried
	if address == "" {
		return func() {}, nil
	}
	return serveMetrics(address, registry)
}

// commonStackConfig parses the settings that all stacks have.
func commonStackConfig(cmd *cobra.Command, values map[string]string, key string) (c stackctl.Config, err error) {
	flags := cmd.Flags()
	text := func(flag string) string { return flags.Lookup(flag).Value.String() }
	var problems []error
	api := &stackctl.API{Endpoint: strings.TrimRight(values["endpoint"], "/"), Token: values["token"]}
	if !strings.HasPrefix(api.Endpoint, "http://") && !strings.HasPrefix(api.Endpoint, "https://") {
		problems = append(problems, fmt.Errorf("--endpoint: %q is not a URL such as https://ci.example.com/v3", api.Endpoint))
	}
	if api.Token == "" {
		problems = append(problems, errors.New("--token is required: an agent token of the cluster [SERVICE_AGENT_TOKEN]"))
	}
	c = stackctl.Config{API: api, Key: cmp.Or(text("key"), key)}
	c.Queues, _ = flags.GetStringArray("queue")
	tags := os.Getenv("SERVICE_AGENT_TAGS")
	if given, _ := flags.GetStringArray("tags"); len(given) > 0 {
		tags = strings.Join(given, ",")
	}
	if c.Tags, err = runner.ParseTags(tags); err != nil {
		problems = append(problems, fmt.Errorf("--tags: %w", err))
	}
	if slices.ContainsFunc(c.Tags, func(tag string) bool { return strings.HasPrefix(tag, "queue=") }) {
		problems = append(problems, errors.New("--tags: name queues with --queue"))
	}
	if c.Max, _ = flags.GetInt("max"); c.Max < 1 {
		problems = append(problems, errors.New("--max must be at least 1"))
	}
	if c.Log, err = cmdline.NewLogger(text("log-format"), ""); err != nil {
		problems = append(problems, err)
	}
	return c, errors.Join(problems...)
}

// stackConfig parses the command's settings. It returns all errors at once.
func stackConfig(cmd *cobra.Command) (c stackctl.Config, metricsAddress string, err error) {
	text := func(flag string) string { return cmd.Flags().Lookup(flag).Value.String() }
	values, gathered := cmdline.Gather(cmd, stackSettings, nil)
	c, err = commonStackConfig(cmd, values, defaultStackKey())
	problems := []error{gathered, err}
	program, err := os.Executable()
	if err != nil {
		problems = append(problems, err)
	}
	processes := stackctl.Processes{Program: program}
	if name := values["job-user"]; name != "" {
		if _, err := JobUser(name); err != nil {
			problems = append(problems, err)
		}
		if text("command") != "" {
			problems = append(problems, errors.New("--job-user applies to local processes; remove it or --command"))
		}
		processes.Args = []string{"--job-user", name}
	}
	c.Compute = processes
	if template := text("command"); template != "" {
		command, err := stackctl.ParseCommand(template)
		if err != nil {
			problems = append(problems, fmt.Errorf("--command: %w", err))
		}
		c.Compute = command
	}
	return c, text("metrics-listen"), errors.Join(problems...)
}

// defaultStackKey returns a key based on the host name.
func defaultStackKey() string {
	host, _ := os.Hostname()
	key := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, "stackyard-"+host)
	return key[:min(len(key), 80)]
}

func serveMetrics(address string, registry *prometheus.Registry) (stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go s.Serve(listener)
	return func() { s.Close() }, nil
}
