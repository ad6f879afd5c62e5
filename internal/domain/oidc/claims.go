package oidc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

const (
	// defaultLifetime and maxLifetime bound how long a token says that it is good: nobody can take it back.
	defaultLifetime = 5 * time.Minute
	maxLifetime     = 24 * time.Hour
	maxAudience     = 1024 // bytes
	maxClaims       = 50   // the most session tags that AWS takes
)

// A workload is a job as its token describes it to others.
type workload struct {
	agents.FullJob
	org     *identity.Organization
	agent   *agents.Agent
	cluster clusters.Cluster
	queue   clusters.Queue
}

// subject says in one text which work this is.
func (w workload) subject() string {
	ref := "refs/heads/" + w.Build.Branch
	if w.Build.Tag != "" {
		ref = "refs/tags/" + w.Build.Tag
	}
	return fmt.Sprintf("organization:%s:pipeline:%s:ref:%s:commit:%s:step:%s", w.org.Slug, w.Pipeline.Slug, ref, w.Build.Commit, w.Job.Step.Key)
}

// always are the claims that every token has.
func (w workload) always() map[string]any {
	claims := map[string]any{
		"organization_slug":  w.org.Slug,
		"pipeline_slug":      w.Pipeline.Slug,
		"build_number":       w.Build.Number,
		"build_branch":       w.Build.Branch,
		"build_commit":       w.Build.Commit,
		"build_source":       string(w.Build.Source),
		"step_key":           textOrNil(w.Job.Step.Key),
		"job_id":             w.Job.ID,
		"agent_id":           w.agent.ID,
		"runner_environment": "self-hosted",
	}
	if w.Build.Tag != "" {
		claims["build_tag"] = w.Build.Tag
	}
	if w.queue.Hosted != nil {
		claims["runner_environment"] = "hosted"
	}
	return claims
}

// optional are the claims that a token has when they are asked for.
func (w workload) optional() map[string]any {
	return map[string]any{
		"organization_id": w.org.ID,
		"pipeline_id":     w.Pipeline.ID,
		"build_id":        w.Build.ID,
		"cluster_id":      textOrNil(w.Build.ClusterID),
		"cluster_name":    textOrNil(w.cluster.Name),
		"queue_id":        textOrNil(w.Job.QueueID),
		"queue_key":       textOrNil(w.queue.Key),
	}
}

// tagClaim begins the name of a claim about a tag of the agent.
const tagClaim = "agent_tag:"

// claim returns a claim by its name.
func (w workload) claim(name string) (any, error) {
	if tag, ok := strings.CutPrefix(name, tagClaim); ok {
		for _, t := range w.agent.Tags {
			if key, value, _ := strings.Cut(t, "="); key == tag {
				return value, nil
			}
		}
		return nil, nil
	}
	known := w.always()
	maps.Copy(known, w.optional())
	value, ok := known[name]
	if !ok && name != "build_tag" {
		return nil, core.Errorf(core.Unprocessable, "There is no claim %q; there are %s, and %sNAME", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "), tagClaim)
	}
	return value, nil
}

// subjects are the claims that can be the subject of a token alone: those that never change.
var subjects = []string{"organization_id", "pipeline_id", "cluster_id", "queue_id", "build_id", "job_id", "agent_id"}

// identityTokenCreate is what a job asks its token to be.
type identityTokenCreate struct {
	Audience       string   `json:"audience" doc:"Who the token is for; the organization's page unless given."`
	Lifetime       int64    `json:"lifetime" doc:"Seconds, up to a day; 300 unless given."`
	Claims         []string `json:"claims" doc:"Claims beside those that every token has."`
	AWSSessionTags []string `json:"aws_session_tags" doc:"Claims to pass on as session tags of AWS."`
	SubjectClaim   string   `json:"subject_claim" doc:"The claim that is the subject alone, such as pipeline_id."`
}

func (c identityTokenCreate) check() error {
	switch {
	case c.Lifetime < 0 || c.Lifetime > int64(maxLifetime/time.Second):
		return core.Errorf(core.Unprocessable, "The lifetime of a token is 1 to %d seconds", int64(maxLifetime/time.Second))
	case len(c.Audience) > maxAudience:
		return core.Errorf(core.Unprocessable, "The audience of a token has %d bytes; %d are the most", len(c.Audience), maxAudience)
	case len(c.Claims) > maxClaims || len(c.AWSSessionTags) > maxClaims:
		return core.Errorf(core.Unprocessable, "A token can have %d claims of its own, and as many session tags", maxClaims)
	case c.SubjectClaim != "" && !slices.Contains(subjects, c.SubjectClaim):
		return core.Errorf(core.Unprocessable, "%q cannot be the subject of a token; %s can", c.SubjectClaim, strings.Join(subjects, ", "))
	}
	return nil
}

// tokenClaims returns what the token of a job says.
func (s *Service) tokenClaims(w workload, asked identityTokenCreate) (map[string]any, error) {
	if err := asked.check(); err != nil {
		return nil, err
	}
	now, lifetime := s.clock(), time.Duration(asked.Lifetime)*time.Second
	if lifetime == 0 {
		lifetime = defaultLifetime
	}
	claims := w.always()
	maps.Copy(claims, map[string]any{
		"iss": string(s.public),
		"sub": w.subject(),
		"aud": s.public.To(w.org.Slug),
		"iat": now.Unix(),
		"nbf": now.Unix(),
		"exp": now.Add(lifetime).Unix(),
		"jti": core.NewID(),
	})
	if asked.Audience != "" {
		claims["aud"] = asked.Audience
	}
	for _, name := range asked.Claims {
		value, err := w.claim(name)
		if err != nil {
			return nil, err
		}
		claims[name] = value
	}
	if name := asked.SubjectClaim; name != "" {
		value, err := w.claim(name)
		if err != nil {
			return nil, err
		}
		if value == nil {
			return nil, core.Errorf(core.Unprocessable, "The job has no %s, so it cannot be the subject of its token", name)
		}
		claims[name], claims["sub"] = value, value
	}
	return claims, w.tag(claims, asked.AWSSessionTags)
}

// tag adds claims in the form in which AWS takes session tags, in which all of them are texts.
func (w workload) tag(claims map[string]any, names []string) error {
	if len(names) == 0 {
		return nil
	}
	tags := make(map[string][]string, len(names))
	for _, name := range names {
		value, err := w.claim(name)
		if err != nil {
			return err
		}
		tags[name] = []string{""}
		if value != nil {
			tags[name] = []string{fmt.Sprint(value)}
		}
	}
	claims["https://aws.amazon.com/tags"] = map[string]any{"principal_tags": tags}
	return nil
}

// textOrNil returns nil for no text.
func textOrNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}
