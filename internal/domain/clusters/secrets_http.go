package clusters

import (
	"encoding/json"
	"net/http"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Service) secretRoutes() []route.Route {
	const path = "/v2/organizations/{org}/clusters/{cluster}/secrets"
	load := resourceLoader(s, "secret", noSecret, secretByID)
	return []route.Route{
		{
			Method: http.MethodGet, Path: path, Tag: "Secrets", Summary: "List the secrets of a cluster",
			Description: "Values of secrets are never shown.",
			Scope:       identity.ReadSecretsDetails,
			Query:       route.PageParams,
			Handler:     route.On(s.load, s.listSecrets),
		},
		{
			Method: http.MethodPost, Path: path, Tag: "Secrets", Summary: "Create a secret",
			Scope: identity.WriteSecrets, Permission: identity.ManageClusters,
			Status:  http.StatusCreated,
			Handler: route.OnBody(s.load, s.postSecret),
		},
		{
			Method: http.MethodGet, Path: path + "/{secret}", Tag: "Secrets", Summary: "Get a secret",
			Description: "The value is never shown.",
			Scope:       identity.ReadSecretsDetails,
			Handler:     route.On(load, s.getSecret),
		},
		{
			Method: http.MethodPut, Path: path + "/{secret}", Tag: "Secrets", Summary: "Update a secret",
			Description: "Changes only the fields in the body. The key is never changed, the value in its own place only.",
			Scope:       identity.WriteSecrets, Permission: identity.ManageClusters,
			Handler: route.OnBody(load, s.putSecret),
		},
		{
			Method: http.MethodPut, Path: path + "/{secret}/value", Tag: "Secrets", Summary: "Update the value of a secret",
			Scope: identity.WriteSecrets, Permission: identity.ManageClusters,
			Handler: route.OnBody(load, s.putSecretValue),
		},
		{
			Method: http.MethodDelete, Path: path + "/{secret}", Tag: "Secrets", Summary: "Delete a secret",
			Scope: identity.WriteSecrets, Permission: identity.ManageClusters,
			Status:  http.StatusNoContent,
			Handler: route.On(load, s.deleteSecret),
		},
	}
}

type clusterSecretView struct {
	ID           string                        `json:"id"`
	GraphQLID    string                        `json:"graphql_id"`
	Key          string                        `json:"key"`
	Description  string                        `json:"description"`
	Policy       string                        `json:"policy" doc:"YAML: which jobs may read the secret; empty: all jobs of the cluster."`
	URL          string                        `json:"url"`
	ClusterURL   string                        `json:"cluster_url"`
	CreatedAt    core.Time                     `json:"created_at"`
	CreatedBy    *clusterSecretUserView        `json:"created_by"`
	UpdatedAt    core.Time                     `json:"updated_at"`
	UpdatedBy    *clusterSecretUserView        `json:"updated_by"`
	LastReadAt   core.Time                     `json:"last_read_at"`
	Organization clusterSecretOrganizationView `json:"organization"`
}

type clusterSecretUserView struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Email string `json:"email"`
}

type clusterSecretOrganizationView struct {
	ID     string `json:"id"`
	Slug   string `json:"slug"`
	URL    string `json:"url"`
	WebURL string `json:"web_url"`
}

func (s *Service) viewSecret(r *route.Request, secret Secret) clusterSecretView {
	return clusterSecretView{
		ID:          secret.ID,
		GraphQLID:   core.GraphQLID("ClusterSecret", secret.ID),
		Key:         secret.Key,
		Description: secret.Description,
		Policy:      secret.Policy,
		URL:         s.url(r, secret.ClusterID, "secrets", secret.ID),
		ClusterURL:  s.url(r, secret.ClusterID),
		CreatedAt:   core.At(secret.CreatedAt),
		CreatedBy:   viewSecretUser(secret.CreatedBy),
		UpdatedAt:   core.At(secret.UpdatedAt),
		UpdatedBy:   viewSecretUser(secret.UpdatedBy),
		LastReadAt:  core.At(secret.LastReadAt),
		Organization: clusterSecretOrganizationView{
			ID: r.Org.ID, Slug: r.Org.Slug, URL: s.public.Org(r.Org.Slug), WebURL: s.public.To(r.Org.Slug),
		},
	}
}

func viewSecretUser(u *identity.User) *clusterSecretUserView {
	if u == nil {
		return nil
	}
	return &clusterSecretUserView{ID: u.ID, Name: u.Name, Email: u.Email}
}

func (s *Service) listSecrets(r *route.Request, c maintained) (route.Paged[clusterSecretView], error) {
	return listResources(s, r, c, listSecrets, s.viewSecret)
}

func (s *Service) getSecret(r *route.Request, p resource[Secret]) (clusterSecretView, error) {
	return s.viewSecret(r, p.item), nil
}

type clusterSecretCreate struct {
	Key         route.Opt[string] `json:"key" doc:"Starts with a letter; letters, digits and underscores; not starting with buildkite, bk, stackyard or service_; unique in the cluster."`
	Value       route.Opt[string] `json:"value" doc:"Less than 8 KiB."`
	Description route.Opt[string] `json:"description"`
	Policy      route.Opt[string] `json:"policy" doc:"YAML: a list of rules, each a mapping of claims to one value or a list of values."`
}

func (s *Service) postSecret(r *route.Request, c maintained, body clusterSecretCreate) (clusterSecretView, error) {
	now := s.clock()
	secret := Secret{
		ID:          core.NewID(),
		ClusterID:   c.ID,
		Key:         body.Key.Value,
		Description: body.Description.Value,
		Policy:      body.Policy.Value,
		CreatedBy:   &r.Caller.User,
		CreatedAt:   now,
		UpdatedAt:   now,
	}
	var problems core.Problems
	secret.check(&problems)
	checkSecretValue(&problems, body.Value.Value)
	if err := problems.Err(); err != nil {
		return clusterSecretView{}, err
	}
	if err := s.seal(&secret, body.Value.Value); err != nil {
		return clusterSecretView{}, err
	}
	created, err := s.createSecret(r.Context(), c.Cluster, secret)
	return s.viewSecret(r, created), err
}

type clusterSecretUpdate struct {
	Description route.Opt[string]          `json:"description"`
	Policy      route.Opt[string]          `json:"policy"`
	Key         route.Opt[json.RawMessage] `json:"key" doc:"Refused: the key cannot be updated."`
	Value       route.Opt[json.RawMessage] `json:"value" doc:"Refused: the value is updated in its own place."`
}

func (s *Service) putSecret(r *route.Request, p resource[Secret], body clusterSecretUpdate) (clusterSecretView, error) {
	changed, err := s.changeSecret(r.Context(), p, &r.Caller.User, func(secret *Secret) error {
		var problems core.Problems
		if body.Key.Set {
			problems.Add("key", "cannot be updated")
		}
		if body.Value.Set {
			problems.Add("value", "cannot be updated here; use %s", s.url(r, p.ID, "secrets", p.item.ID, "value"))
		}
		body.Description.To(&secret.Description)
		body.Policy.To(&secret.Policy)
		secret.check(&problems)
		return problems.Err()
	})
	return s.viewSecret(r, changed), err
}

type clusterSecretValueUpdate struct {
	Value route.Opt[string] `json:"value" doc:"Less than 8 KiB."`
}

func (s *Service) putSecretValue(r *route.Request, p resource[Secret], body clusterSecretValueUpdate) (clusterSecretView, error) {
	var problems core.Problems
	checkSecretValue(&problems, body.Value.Value)
	if err := problems.Err(); err != nil {
		return clusterSecretView{}, err
	}
	changed, err := s.changeSecret(r.Context(), p, &r.Caller.User, func(secret *Secret) error {
		return s.seal(secret, body.Value.Value)
	})
	return s.viewSecret(r, changed), err
}

func (s *Service) deleteSecret(r *route.Request, p resource[Secret]) (route.Nothing, error) {
	return route.Nothing{}, s.removeSecret(r.Context(), p)
}
