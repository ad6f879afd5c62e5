package jobapi

import (
	"net/http"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

func (s *Service) secretRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodGet, Path: agents.JobPath + "/secrets", Tag: agents.JobTag, Summary: "Read a secret of the job's cluster",
			Description: "The secret's policy must allow the job.",
			Query:       []route.Param{{Name: "key", Doc: "The key of the secret."}},
			Auth:        route.Job,
			Handler:     route.On(s.agents.LoadFullJob, s.getSecret),
		},
		{
			Method: http.MethodPost, Path: agents.JobPath + "/repository_access_token", Tag: agents.JobTag, Summary: "Get a token to clone the pipeline's repository",
			Auth:    route.Job,
			Handler: route.OnBody(s.agents.LoadFullJob, s.postRepositoryToken),
		},
	}
}

type secretView struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	UUID  string `json:"uuid"`
}

func (s *Service) getSecret(r *route.Request, h agents.FullJob) (secretView, error) {
	key := r.FormQuery("key")
	if key == "" {
		return secretView{}, core.Errorf(core.BadRequest, "The query parameter key is required")
	}
	if h.Build.FromFork(h.Pipeline) {
		return secretView{}, core.Errorf(core.Forbidden, "Builds of pull requests from other repositories get no secrets")
	}
	r.SetHeader("Cache-Control", "no-store")
	secret, value, err := s.clusters.ReadSecret(r.Context(), secretReader(h), key)
	if kind := core.KindOf(err); kind == core.Forbidden || kind == core.NotFound {
		s.log.Warn("secret refused", "organization", r.Org.ID, "pipeline", h.Pipeline.ID, "build", h.Build.ID, "job", h.Job.ID, "agent", r.Session.AgentID, "key", key, "reason", err)
	}
	if err != nil {
		return secretView{}, err
	}
	s.log.Info("secret read", "organization", r.Org.ID, "pipeline", h.Pipeline.ID, "build", h.Build.ID, "job", h.Job.ID, "agent", r.Session.AgentID, "secret", secret.ID)
	return secretView{Key: secret.Key, Value: value, UUID: secret.ID}, nil
}

// secretReader returns the job as policies of secrets see it.
func secretReader(h agents.FullJob) clusters.Reader {
	return clusters.Reader{
		OrganizationID: h.Build.OrganizationID,
		ClusterID:      h.Build.ClusterID,
		QueueID:        h.Job.QueueID,
		PipelineID:     h.Pipeline.ID,
		PipelineSlug:   h.Pipeline.Slug,
		BuildSource:    string(h.Build.Source),
		BuildBranch:    h.Build.Branch,
		BuildCreator:   h.Build.Creator,
	}
}

type repositoryTokenCreate struct {
	RepoURL string `json:"repo_url" doc:"The https URL of the pipeline's own repository."`
}

type repositoryTokenView struct {
	Token string `json:"token" doc:"The password for the user named token."`
}

func (s *Service) postRepositoryToken(r *route.Request, h agents.FullJob, body repositoryTokenCreate) (repositoryTokenView, error) {
	if h.Build.FromFork(h.Pipeline) {
		return repositoryTokenView{}, core.Errorf(core.Forbidden, "Builds of pull requests from other repositories get no token")
	}
	r.SetHeader("Cache-Control", "no-store")
	token, err := s.pipelines.CloneToken(r.Context(), h.Pipeline, body.RepoURL)
	return repositoryTokenView{token}, err
}
