package clusterpages

import (
	"net/http"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/route"
)

func (s *Site) secretRoutes() []route.Route {
	const all, one = "/clusters/{cluster}/secrets", "/clusters/{cluster}/secrets/{secret}"
	load := loader[clusterSecret](s, "secrets", "secret")
	return []route.Route{
		s.get(all, pages.On(s.within, s.secrets)),
		s.post(all, pages.On(s.within, s.createSecret)),
		s.get(one, pages.On(load, s.secret)),
		s.post(one, pages.On(load, s.changeSecret)),
		s.post(one+"/value", pages.On(load, s.replaceSecret)),
		s.post(one+"/delete", s.deleteSecret),
	}
}

// A clusterSecret is a secret in a response, which never has the value.
type clusterSecret struct {
	ID          string     `json:"id"`
	Key         string     `json:"key"`
	Description string     `json:"description"`
	Policy      string     `json:"policy"`
	CreatedAt   time.Time  `json:"created_at"`
	CreatedBy   *person    `json:"created_by"`
	UpdatedAt   *time.Time `json:"updated_at"`
	LastReadAt  *time.Time `json:"last_read_at"`
}

const policyHint = "YAML that lists which jobs can read it; empty: all jobs of the cluster. Example: - pipeline_slug: deploy"

func (s *Site) secretForm(in inCluster) pages.Form {
	return pages.Form{ID: "new", Action: in.At("secrets"), Submit: "Create secret", Fields: []pages.Field{
		{Name: "key", Label: "Key", Required: true, Placeholder: "DEPLOY_KEY"},
		{Name: "value", Label: "Value", Kind: pages.AreaField, Required: true, Hint: "It is encrypted, and never shown again."},
		{Name: "description", Label: "Description", Null: true},
		{Name: "policy", Label: "Access policy", Kind: pages.AreaField, Null: true, Hint: policyHint},
	}}
}

func (s *Site) secrets(v *pages.Visit, in inCluster) error {
	return s.showSecrets(v, http.StatusOK, in, s.secretForm(in))
}

func (s *Site) showSecrets(v *pages.Visit, status int, in inCluster, form pages.Form) error {
	list, links, err := pages.ListOf[clusterSecret](v, v.API("clusters", in.Cluster.ID, "secrets"))
	if err != nil {
		return err
	}
	return in.show(v, status, "secrets", "secrets", "Secrets", struct {
		inCluster
		Secrets []clusterSecret
		Pages   []pages.PageLink
		New     pages.Form
	}{in, list, links, form})
}

func (s *Site) createSecret(v *pages.Visit, in inCluster) error {
	return v.Submit(s.secretForm(in), "POST", v.API("clusters", in.Cluster.ID, "secrets"), in.At("secrets"), "Secret created.", func(f pages.Form) error {
		for i := range f.Fields {
			if f.Fields[i].Name == "value" {
				f.Fields[i].Value = "" // it is entered again
			}
		}
		return s.showSecrets(v, http.StatusUnprocessableEntity, in, f)
	})
}

func editSecretForm(in inCluster, secret clusterSecret) pages.Form {
	return pages.Form{ID: "edit", Action: in.At("secrets", secret.ID), Submit: "Save secret", Fields: []pages.Field{
		{Name: "description", Label: "Description", Null: true, Value: secret.Description},
		{Name: "policy", Label: "Access policy", Kind: pages.AreaField, Null: true, Value: secret.Policy, Hint: policyHint},
	}}
}

func secretValueForm(in inCluster, secret clusterSecret) pages.Form {
	return pages.Form{ID: "value", Action: in.At("secrets", secret.ID, "value"), Submit: "Replace value", Fields: []pages.Field{
		{Name: "value", Label: "New value", Kind: pages.AreaField, Required: true},
	}}
}

func (s *Site) secret(v *pages.Visit, on resource[clusterSecret]) error {
	return s.showSecret(v, http.StatusOK, on.inCluster, on.it, editSecretForm(on.inCluster, on.it), secretValueForm(on.inCluster, on.it))
}

func (s *Site) showSecret(v *pages.Visit, status int, in inCluster, secret clusterSecret, edit, value pages.Form) error {
	return in.show(v, status, "cluster_secret", "secrets", secret.Key, struct {
		inCluster
		Secret      clusterSecret
		Edit, Value pages.Form
		Delete      pages.Confirm
	}{in, secret, edit, value, pages.Confirm{Summary: "Delete secret", Warning: "Jobs that read it fail from now on. This cannot be undone.",
		Form: pages.Form{ID: "delete", Action: in.At("secrets", secret.ID, "delete"), Submit: "Delete " + secret.Key, Danger: true}}})
}

func (s *Site) changeSecret(v *pages.Visit, on resource[clusterSecret]) error {
	return v.Submit(editSecretForm(on.inCluster, on.it), "PUT", on.api, on.At("secrets", on.it.ID), "Secret saved.", func(f pages.Form) error {
		return s.showSecret(v, http.StatusUnprocessableEntity, on.inCluster, on.it, f, secretValueForm(on.inCluster, on.it))
	})
}

func (s *Site) replaceSecret(v *pages.Visit, on resource[clusterSecret]) error {
	return v.Submit(secretValueForm(on.inCluster, on.it), "PUT", on.api+"/value", on.At("secrets", on.it.ID), "Value replaced.", func(f pages.Form) error {
		f.Fields[0].Value = ""
		return s.showSecret(v, http.StatusUnprocessableEntity, on.inCluster, on.it, editSecretForm(on.inCluster, on.it), f)
	})
}

func (s *Site) deleteSecret(v *pages.Visit) error {
	id := v.PathValue("cluster")
	return v.Act("DELETE", v.API("clusters", id, "secrets", v.PathValue("secret")), nil, v.Place("clusters", id, "secrets"), "Secret deleted.")
}
