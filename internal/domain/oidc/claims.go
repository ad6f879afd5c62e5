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
	// defaultLifetime and maxLifetime bound the lifetime of a token, because tokens cannot be revoked.
	defaultLifetime = 5 * time.Minute
	maxLifetime     = 24 * time.Hour
	maxAudience     = 1024 // bytes
	maxClaims       = 50   // the maximum number of session tags in AWS
)

// A workload is the job that a token describes, with everything its claims are made of.
type workload struct {
	agents.FullJob
	org     *identity.Organization
	agent   *agents.Agent
	cluster clusters.Cluster
	queue   clusters.Queue
}

// subject returns the default subject of a token.
func (w workload) subject() string {
	ref := "refs/heads/" + w.Build.Branch
	if w.Build.Tag != "" {
		ref = "refs/tags/" + w.Build.Tag
	}
	return fmt.Sprintf("organization:%s:pipeline:%s:ref:%s:commit:%s:step:%s", w.org.Slug, w.Pipeline.Slug, ref, w.Build.Commit, w.Job.Step.Key)
}

// defaultClaims returns the claims that every token has.
func (w workload) defaultClaims() map[string]any {
	claims := map[string]any{
		"organization_slug":  w.org.Slug,
		"pipeline_slug":      w.Pipeline.Slug,
		"build_number":       w.Build.Number,
		"build_branch":       w.Build.Branch,
		"build_commit":       w.Build.Commit,
		"build_source":       string(w.Build.Source),
		"step_key":           orNil(w.Job.Step.Key),
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

// optionalClaims returns the claims that a token has only on request.
func (w workload) optionalClaims() map[string]any {
	return map[string]any{
		"organization_id": w.org.ID,
		"pipeline_id":     w.Pipeline.ID,
		"build_id":        w.Build.ID,
		"cluster_id":      orNil(w.Build.ClusterID),
		"cluster_name":    orNil(w.cluster.Name),
		"queue_id":        orNil(w.Job.QueueID),
		"queue_key":       orNil(w.queue.Key),
	}
}

// tagClaim is the prefix of claims about tags of the agent.
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
	known := w.defaultClaims()
	maps.Copy(known, w.optionalClaims())
	value, ok := known[name]
	if !ok && name != "build_tag" {
		return nil, core.Errorf(core.Unprocessable, "There is no claim %q; there are %s, and %sNAME", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "), tagClaim)
	}
	return value, nil
}

// subjectClaims lists the claims that can replace the subject of a token: those that never change.
var subjectClaims = []string{"organization_id", "pipeline_id", "cluster_id", "queue_id", "build_id", "job_id", "agent_id"}

// identityTokenCreate is a request for a token.
type identityTokenCreate struct {
	Audience       string   `json:"audience" doc:"Audience of the token. Defaults to the URL of the organization."`
	Lifetime       int64    `json:"lifetime" doc:"Seconds, at most one day. Defaults to 300."`
	Claims         []string `json:"claims" doc:"Additional claims."`
	AWSSessionTags []string `json:"aws_session_tags" doc:"Claims to pass as AWS session tags."`
	SubjectClaim   string   `json:"subject_claim" doc:"The claim to use as subject, for example pipeline_id."`
}

func (c identityTokenCreate) check() error {
	switch {
	case c.Lifetime < 0 || c.Lifetime > int64(maxLifetime/time.Second):
		return core.Errorf(core.Unprocessable, "The lifetime of a token is 1 to %d seconds", int64(maxLifetime/time.Second))
	case len(c.Audience) > maxAudience:
		return core.Errorf(core.Unprocessable, "The audience of a token has %d bytes; %d are the most", len(c.Audience), maxAudience)
	case len(c.Claims) > maxClaims || len(c.AWSSessionTags) > maxClaims:
		return core.Errorf(core.Unprocessable, "A token can have %d claims of its own, and as many session tags", maxClaims)
	case c.SubjectClaim != "" && !slices.Contains(subjectClaims, c.SubjectClaim):
		return core.Errorf(core.Unprocessable, "%q cannot be the subject of a token; %s can", c.SubjectClaim, strings.Join(subjectClaims, ", "))
	}
	return nil
}

// tokenClaims returns the claims of a job's token.
func (s *Service) tokenClaims(w workload, request identityTokenCreate) (map[string]any, error) {
	if err := request.check(); err != nil {
		return nil, err
	}
	now, lifetime := s.clock(), time.Duration(request.Lifetime)*time.Second
	if lifetime == 0 {
		lifetime = defaultLifetime
	}
	claims := w.defaultClaims()
	maps.Copy(claims, map[string]any{
		"iss": string(s.public),
		"sub": w.subject(),
		"aud": s.public.To(w.org.Slug),
		"iat": now.Unix(),
		"nbf": now.Unix(),
		"exp": now.Add(lifetime).Unix(),
		"jti": core.NewID(),
	})
	if request.Audience != "" {
		claims["aud"] = request.Audience
	}
	for _, name := range request.Claims {
		value, err := w.claim(name)
		if err != nil {
			return nil, err
		}
		claims[name] = value
	}
	if name := request.SubjectClaim; name != "" {
		value, err := w.claim(name)
		if err != nil {
			return nil, err
		}
		if value == nil {
			return nil, core.Errorf(core.Unprocessable, "The job has no %s, so it cannot be the subject of its token", name)
		}
		claims[name], claims["sub"] = value, value
	}
	return claims, w.addSessionTags(claims, request.AWSSessionTags)
}

// addSessionTags adds claims as AWS session tags. The values of session tags are lists of strings.
func (w workload) addSessionTags(claims map[string]any, names []string) error {
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

// orNil returns nil for "", which JSON shows as null.
func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}
