package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/cobra"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/server"
	"stackyard/internal/clients/agentcli"
	"stackyard/internal/clients/cli"
	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/runner"
	"stackyard/internal/clients/runner/container"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [FILE]",
		Short: "Run a pipeline on this machine, without a server",
		Long: `Run a pipeline on this machine with the agent's executor, and print its logs. No
server, no account and no commit is needed: jobs run in the working tree of the
repository that you are in, with your changes and your variables, and share it.

Waits, dependencies, conditions, groups, parallel and matrix steps, retries,
meta-data, artifacts, annotations and pipeline uploads work as on a server. Agent
rules and queues are ignored. Block steps ask on a terminal. Trigger steps and
secrets need a server. Artifacts and logs are removed at the end.

The exit status is 0 if the build passes, else 1. Ctrl-C cancels the jobs.`,
		Example: `  stackyard run
  stackyard run .stackyard/release.yml --branch main --env CHANNEL=beta
  stackyard run --only lint --only test`,
		Args: cmdline.AtMost("FILE"),
	}
	o := &localRun{}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.only, "only", nil, "run only steps with this key or label, repeatable; the others are skipped")
	flags.StringVar(&o.branch, "branch", "", "branch of the build (default: the current one)")
	flags.StringVar(&o.message, "message", "", "message of the build (default: of the last commit)")
	flags.StringArrayVar(&o.env, "env", nil, "variable as KEY=VALUE, repeatable")
	flags.StringArrayVar(&o.metaData, "meta-data", nil, "meta-data as KEY=VALUE, repeatable")
	flags.StringArrayVar(&o.fields, "field", nil, "field of block and input steps as KEY=VALUE, repeatable")
	flags.BoolVar(&o.unblock, "unblock", false, "unblock steps without asking")
	flags.IntVar(&o.agents, "jobs", runtime.NumCPU(), "how many jobs run at once")
	flags.BoolVar(&o.verbose, "verbose", false, "print the messages of the server and the agents")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) }
	return cmd
}

// A localRun runs a pipeline with a server in this process, which only this command uses.
type localRun struct {
	only, env, metaData, fields []string
	branch, message             string
	unblock, verbose            bool
	agents                      int
}

func (o *localRun) run(cmd *cobra.Command, args []string) error {
	name, source, err := agentcli.PipelineSource(cmd.InOrStdin(), args)
	if err != nil {
		return cmdline.Usage(err)
	}
	parsed, result := lint(name, source)
	if parsed == nil {
		result.write(cmd.ErrOrStderr())
		return cmdline.Usage(fmt.Errorf("%s in %s", count(len(result.Errors), "problem"), name))
	}
	configuration, err := localDefinition(source, o.only)
	if err != nil {
		return cmdline.Usage(err)
	}
	build, err := o.build()
	if err != nil {
		return err
	}
	if o.agents < 1 {
		return cmdline.Usage(errors.New("--jobs must be at least 1"))
	}
	data, err := os.MkdirTemp("", "stackyard-run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	return o.serve(cmd, data, configuration, build)
}

// build returns the build to create.
func (o *localRun) build() (cli.LocalBuild, error) {
	b := cli.LocalBuild{
		Token: seal.NewToken(identity.AccessTokenPrefix), Org: localOrg, Pipeline: "pipeline", Unblock: o.unblock,
		Request: map[string]any{
			"branch":  firstText(o.branch, git("branch", "--show-current"), "main"),
			"commit":  firstText(git("rev-parse", "HEAD"), strings.Repeat("0", 40)),
			"message": firstText(o.message, git("log", "-1", "--format=%B"), "Local run"),
		},
	}
	for flag, texts := range map[string][]string{"env": o.env, "meta-data": o.metaData, "field": o.fields} {
		values, err := cmdline.Pairs(flag, texts)
		if err != nil {
			return b, err
		}
		if flag == "field" {
			b.Fields = values
		} else {
			b.Request[strings.ReplaceAll(flag, "-", "_")] = values
		}
	}
	return b, nil
}

// localOrg is the organization of local runs.
const localOrg = "local"

// serve serves while the build runs.
func (o *localRun) serve(cmd *cobra.Command, data, configuration string, build cli.LocalBuild) error {
	values := map[string]string{}
	for _, s := range serverSettings {
		values[s.Flag] = s.Unset
	}
	values["data"], values["listen"], values["agent-images"] = data, "127.0.0.1:0", "off"
	settings, err := parse(values)
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	if o.verbose {
		log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	}
	agentToken := seal.NewToken(identity.AgentTokenPrefix)
	prepare := func(st server.Storage) error {
		var file bytes.Buffer
		err := localTemplate.Execute(&file, map[string]string{
			"Org": localOrg, "AccessToken": build.Token, "AgentToken": agentToken, "Repository": localRepository(),
			"Branch": build.Request["branch"].(string), "Configuration": indented(configuration),
		})
		if err != nil {
			return err
		}
		_, err = orgfile.Apply(cmd.Context(), st.DB, st.Key, core.SystemClock, file.Bytes())
		return err
	}
	// The server outlives the agents, which report canceled jobs.
	serving, stop := context.WithCancel(context.WithoutCancel(cmd.Context()))
	defer stop()
	ended := make(chan error, 1)
	served := serve(serving, settings, log, io.Discard, prepare, func(ready server.Ready) error {
		build.URL = ready.URL
		go func() {
			ended <- o.runWithAgents(cmd, build, agentToken, data, log)
			stop()
		}()
		return nil
	})
	select {
	case err := <-ended:
		return err
	default:
		return served
	}
}

// runWithAgents runs agents until the build has ended.
func (o *localRun) runWithAgents(cmd *cobra.Command, build cli.LocalBuild, token, data string, log *slog.Logger) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := workingTree()
	if err != nil {
		return err
	}
	options := runner.Options{
		Endpoint: build.URL + "/v3", Token: token, Version: cmdline.Version, Name: "local-%spawn", Spawn: o.agents,
		BuildPath: filepath.Join(data, "builds"), WorkDir: dir, Shell: agentcli.DefaultShell(""),
		CancelGrace: 10 * time.Second, Executable: executable, Containers: container.Find(), Log: log,
	}
	agents, stop := context.WithCancel(cmd.Context())
	idle := make(chan error, 1)
	go func() { idle <- runner.Run(agents, agents, options) }()
	err = build.Run(cmd)
	stop()
	if failed := <-idle; err == nil && failed != nil && cmd.Context().Err() == nil && agents.Err() == nil {
		return failed
	}
	return err
}

//go:embed run.yaml
var localFile string

var localTemplate = template.Must(template.New("run.yaml").Parse(localFile))

// indented indents a text for its place in run.yaml.
func indented(text string) string {
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n          ")
}

// workingTree returns the top folder of the repository that the working directory is in, or else the working directory.
func workingTree() (string, error) {
	if top := git("rev-parse", "--show-toplevel"); top != "" {
		return filepath.FromSlash(top), nil
	}
	return os.Getwd()
}

// localRepository returns the URL of the repository, or a placeholder.
func localRepository() string {
	if origin := git("remote", "get-url", "origin"); strings.HasPrefix(origin, "https://") && !strings.Contains(origin, "@") {
		return origin
	}
	return "https://git.example.test/local/pipeline.git"
}

// git returns the output of git, or "" if there is none.
func git(args ...string) string {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// firstText returns the first text that is not empty.
func firstText(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
