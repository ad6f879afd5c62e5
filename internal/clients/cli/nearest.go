package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"stackyard/api"
	"stackyard/internal/rules/message"
)

// explain adds to the error of a call what the user can do: a wrong slug gets the most similar ones.
func (r *remote) explain(err error, format string, segments []string) error {
	refusal, ok := errors.AsType[*api.Error](err)
	if !ok || refusal.Status != http.StatusNotFound {
		return err
	}
	switch refusal.Message {
	case "No organization found":
		return notFound("organization", r.org, r.organizationSlugs())
	case "No pipeline found":
		if strings.HasPrefix(format, "/pipelines/%") && len(segments) > 0 {
			return notFound("pipeline", segments[0], r.pipelineSlugs())
		}
	case "No job found":
		if strings.HasPrefix(format, "/jobs/%") && len(segments) > 0 {
			return fmt.Errorf("job %q not found; see stackyard job list PIPELINE NUMBER", segments[0])
		}
	case "No build found":
		if strings.HasPrefix(format, "/pipelines/%/builds/%") && len(segments) > 1 {
			return fmt.Errorf("the pipeline %s has no build %s; see stackyard build list %s", segments[0], segments[1], segments[0])
		}
	}
	return err
}

// notFound returns the error for a name that does not exist, with a suggestion.
func notFound(kind, name string, known []string) error {
	return fmt.Errorf("%s %q not found; %s", kind, name, elsewhere(name, known, "stackyard "+strings.TrimSuffix(kind, "anization")+" list"))
}

// elsewhere says where to find a name that does not exist: the most similar one, or the command that lists them.
func elsewhere(name string, known []string, command string) string {
	if near := nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "see " + command
}

func (r *remote) organizationSlugs() []string {
	list, err := api.All[organization](r.ctx, r.Client, "/v2/organizations?per_page=100", 1000)
	if err != nil {
		return nil
	}
	return names(list.Items, func(o organization) string { return o.Slug })
}

func (r *remote) pipelineSlugs() []string {
	list, err := api.All[pipeline](r.ctx, r.Client, "/v2/organizations/"+url.PathEscape(r.org)+"/pipelines?per_page=100", 1000)
	if err != nil {
		return nil
	}
	return names(list.Items, func(p pipeline) string { return p.Slug })
}

func names[T any](items []T, name func(T) string) []string {
	var all []string
	for _, item := range items {
		all = append(all, name(item))
	}
	return all
}

// nearest returns the name that is most similar to a mistyped one, or "" if none is similar.
func nearest(mistyped string, known []string) string {
	best, least := "", len(mistyped)/3+2
	for _, name := range known {
		if d := message.Distance(strings.ToLower(mistyped), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}
