package cli

import (
	"cmp"
	"errors"
	"os/exec"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/platform/sourcehost"
)

// uploadSteps is the definition of a pipeline whose steps are in its repository.
const uploadSteps = `steps:
  - label: Upload pipeline
    command: stackyard agent pipeline upload
`

func pipelineCreateCommand() *cobra.Command {
	cmd := addClusterFlag(&cobra.Command{
		Use:   "create [NAME]",
		Short: "Create a pipeline",
		Long: `Create a pipeline. In a git checkout, its name, repository and default branch are taken
from the remote origin unless given. Without --file, the pipeline runs the steps in the
file .stackyard/pipeline.yml of its repository.

A webhook that starts builds is created if the organization is connected to the host
of the repository, and either the repository is taken from the checkout or
--create-webhook is given.`,
		Example: `  stackyard pipeline create
  stackyard pipeline create Hello --repository https://git.example.com/hello.git --file pipeline.yaml`,
		Args: cmdline.AtMost("NAME"),
	})
	flags := cmd.Flags()
	repository := flags.String("repository", "", "URL of the source repository (default: of the remote origin)")
	file := flags.String("file", "", "YAML definition, - for standard input (default: upload the one in the repository)")
	slug := flags.String("slug", "", "slug (default: from the name)")
	description := flags.String("description", "", "description")
	branch := flags.String("default-branch", "", "default branch")
	webhook := flags.Bool("create-webhook", true, "create a webhook at the source host (default: if the repository is taken from the checkout)")
	return remoteCommand(cmd, func(r *remote, args []string) error {
		p := newPipeline{repository: *repository, branch: *branch, webhook: *webhook && (*repository == "" || flags.Changed("create-webhook"))}
		if len(args) > 0 {
			p.name = args[0]
		}
		if err := p.fromCheckout(); err != nil {
			return err
		}
		configuration := uploadSteps
		if *file != "" {
			var err error
			if configuration, err = definitionFile(cmd, *file); err != nil {
				return err
			}
		}
		c, err := r.cluster(cmd)
		if err != nil {
			return err
		}
		body := map[string]string{"name": p.name, "repository": p.repository, "configuration": configuration, "cluster_id": c.ID}
		for name, value := range map[string]string{"slug": *slug, "description": *description, "default_branch": p.branch} {
			if value != "" {
				body[name] = value
			}
		}
		made, err := call[pipeline](r, post, body, "/pipelines")
		if err != nil {
			return err
		}
		lines := []line{{"Created", made.Value.Slug}, {"Repository", made.Value.Repository}, {"Page", made.Value.WebURL}}
		if p.webhook {
			lines = append(lines, line{"Webhook", createWebhook(r, made.Value.Slug)})
		}
		return printItem(r, made.Raw, lines...)
	})
}

// createWebhook creates the webhook of a pipeline and returns what happened: the pipeline works without it.
func createWebhook(r *remote, slug string) string {
	if _, err := call[pipeline](r, post, nil, "/pipelines/%/webhook", slug); err != nil {
		return "not created: " + err.Error()
	}
	return "created"
}

// A newPipeline has what a checkout can tell about a pipeline.
type newPipeline struct {
	name, repository, branch string
	webhook                  bool
}

// fromCheckout fills in what was not given from the checkout in the working directory.
func (p *newPipeline) fromCheckout() error {
	if p.repository == "" {
		origin, err := git("remote", "get-url", "origin")
		if err != nil || origin == "" {
			return cmdline.Usage(errors.New("--repository is required; in a git checkout it is the URL of the remote origin"))
		}
		// The server gets no password that happens to be in the configuration of a checkout.
		p.repository = sourcehost.WithoutCredentials(origin)
		if head, err := git("symbolic-ref", "--short", "refs/remotes/origin/HEAD"); err == nil {
			p.branch = cmp.Or(p.branch, strings.TrimPrefix(head, "origin/"))
		}
	}
	if p.name == "" {
		p.name = strings.TrimSuffix(path.Base(strings.TrimRight(p.repository, "/")), ".git")
		if repo, err := sourcehost.ParseRepository(p.repository); err == nil {
			p.name = repo.Name
		}
	}
	return nil
}

// git runs git in the working directory and returns its output.
func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	return strings.TrimSpace(string(out)), err
}
