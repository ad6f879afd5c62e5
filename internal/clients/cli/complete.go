package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stackyard/api"
)

// completionTimeout limits how long a shell waits for suggestions.
const completionTimeout = 3 * time.Second

// complete suggests arguments of a command from the server. The words after the name of the command in Use say what they
// are.
func complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const noFiles = cobra.ShellCompDirectiveNoFileComp
	words := strings.Fields(strings.NewReplacer("[", "", "]", "", "JOB | ", "").Replace(cmd.Use))[1:]
	if len(args) >= len(words) {
		return nil, noFiles
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	cmd.SetContext(ctx)
	r, err := connect(cmd)
	if err != nil {
		return nil, noFiles
	}
	if _, err := r.under(""); err != nil {
		return nil, noFiles
	}
	return r.suggest(cmd, words[len(args)], args), noFiles
}

// suggest returns suggestions for an argument, each with a description after a tab.
func (r *remote) suggest(cmd *cobra.Command, word string, args []string) []string {
	noun := cmd.Parent().Name()
	switch word {
	case "PIPELINE":
		return r.pipelineSlugs()
	case "SLUG":
		if noun == "pipeline" {
			return r.pipelineSlugs()
		}
	case "NUMBER":
		list, _ := listMost[build](r, 30, "/pipelines/%/builds?exclude_jobs=true", args[0])
		return names(list.Items, func(b build) string {
			return strconv.Itoa(b.Number) + "\t" + plain(b.stateNow()+", "+b.Branch+", "+firstLine(b.Message))
		})
	case "JOB":
		if len(args) == 2 {
			b, _ := call[build](r, get, nil, "/pipelines/%/builds/%", args[0], args[1])
			return names(b.Value.listed(), func(j job) string { return plain(j.fullTitle()) + "\t" + j.State })
		}
	case "AGENT":
		list, _ := listUnder[api.Agent](r, "/agents")
		return names(list.Items, func(a api.Agent) string { return a.ID + "\t" + plain(a.Name) })
	case "SCHEDULE":
		list, _ := listUnder[schedule](r, "/pipelines/%/schedules", args[0])
		return names(list.Items, func(s schedule) string { return plain(s.name()) + "\t" + plain(s.Cronline) })
	}
	return r.suggestResource(cmd, noun, word)
}

// allResources are the resources whose names are completed.
var allResources = []*resource{secrets, members, teams, services, suites, clusters, queueResource, tokens, stacks, images, connections}

// suggestResource suggests objects of a resource by their first name.
func (r *remote) suggestResource(cmd *cobra.Command, noun, word string) []string {
	for _, res := range allResources {
		if res.noun != noun || res.arg != word || cmd.Name() == "create" {
			continue
		}
		r.cmd = cmd
		collection, err := res.collection(r, res.path)
		if err != nil {
			return nil
		}
		list, err := api.All[object](r.ctx, r.Client, collection+"?per_page=100", 100)
		if err != nil {
			return nil
		}
		return names(list.Items, func(o object) string { return plain(r.text(o, res.names[0])) })
	}
	return nil
}

// completeFlag suggests values of a flag from the server.
func completeFlag(suggest func(r *remote) []string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		cmd.SetContext(ctx)
		r, err := connect(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return suggest(r), cobra.ShellCompDirectiveNoFileComp
	}
}

// clusterNames returns the names of the clusters.
func (r *remote) clusterNames() []string {
	list, _ := listUnder[cluster](r, "/clusters")
	return names(list.Items, func(c cluster) string { return c.Name })
}
