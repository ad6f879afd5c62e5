package pipelinepages

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/core"
)

const firstSteps = `steps:
  - label: Tests
    command: echo "Replace me"
`

// uploadSteps are the steps of a pipeline whose steps are in its repository.
const uploadSteps = `steps:
  - label: Upload steps
    command: stackyard agent pipeline upload
`

// A sourceHost is a connected source host in a response.
type sourceHost struct {
	ConnectionID string `json:"connection_id"`
	Host         string `json:"host"`
	Provider     string `json:"provider"`
	Clones       bool   `json:"clones"`
}

// sourceHosts returns the hosts whose repositories the visitor can list; none without access.
func sourceHosts(v *pages.Visit) (hosts []sourceHost, err error) {
	_, err = v.Call("GET", v.API("source-hosts"), nil, &hosts)
	if core.KindOf(err) == core.Forbidden {
		err = nil
	}
	return hosts, err
}

// newPipelineForm returns the form for a new pipeline: three fields, and more for one of a connected repository.
func newPipelineForm(v *pages.Visit, given url.Values) (pages.Form, error) {
	form := pages.Form{ID: "pipeline", Action: v.Place("pipelines"), Submit: "Create pipeline", Fields: []pages.Field{
		{Name: "name", Label: "Name", Required: true, Placeholder: "Web shop", Value: given.Get("name")},
		{Name: "repository", Label: "Repository", Required: true, Placeholder: "https://github.com/acme/shop.git", Hint: "Its URL, over HTTPS or SSH.", Value: given.Get("repository")},
	}}
	steps := pages.Field{Name: "configuration", Label: "Steps", Kind: pages.CodeField, Required: true, Value: firstSteps}
	host := given.Get("host")
	if host != "" {
		clusters, err := clusterOptions(v)
		if err != nil {
			return form, err
		}
		form.Fields = append(form.Fields,
			pages.Field{Name: "host", Kind: pages.HiddenField, Value: host},
			pages.Field{Name: "default_branch", Label: "Default branch", Null: true, Value: given.Get("default_branch")},
			pages.Field{Name: "cluster_id", Label: "Cluster", Kind: pages.SelectField, Null: true, Options: append([]pages.Option{{Text: "The default cluster"}}, clusters...)},
			pages.Field{Name: "webhook", Label: "Create a webhook at " + host, Kind: pages.CheckField, Checked: true, Hint: "Pushes and pull requests then start builds."})
		steps.Value = uploadSteps
		steps.Hint = "These steps upload those in .stackyard/pipeline.yml of the repository. You can also write the steps here."
	}
	form.Fields = append(form.Fields, steps)
	return form, nil
}

func (s *Site) newPipeline(v *pages.Visit) error {
	form, err := newPipelineForm(v, v.URL.Query())
	if err != nil {
		return err
	}
	return s.showNewPipeline(v, http.StatusOK, form)
}

func (s *Site) showNewPipeline(v *pages.Visit, status int, form pages.Form) error {
	hosts, err := sourceHosts(v)
	if err != nil {
		return err
	}
	s.SetLivePolicy(v.W.Header())
	return v.Show(status, "pipeline_new", pages.View{Title: "New pipeline", Section: "pipelines", Page: struct {
		Form     pages.Form
		Check    string
		Hosts    []sourceHost
		Pick     string
		Connects string
		Visual   string
	}{form, v.Place("pipelines", "check"), hosts, v.Place("pipelines", "repositories"), v.Place("settings", "connections"), v.Place("pipelines", "visual")}})
}

func (s *Site) createPipeline(v *pages.Visit) error {
	values, err := v.ReadForm()
	if err != nil {
		return err
	}
	form, err := newPipelineForm(v, values)
	if err != nil {
		return err
	}
	body := form.Body(values)
	delete(body, "webhook")
	delete(body, "host")
	var made pipeline
	_, err = v.Call("POST", v.API("pipelines"), body, &made)
	if wrong, ok := pages.RefusedFields(err); ok {
		return s.showNewPipeline(v, http.StatusUnprocessableEntity, form.Entered(values, wrong))
	}
	if err != nil {
		return err
	}
	at := "/" + v.Org.Slug + "/" + made.Slug
	if values.Get("webhook") == "" {
		return v.Done(at, "Pipeline created. Start its first build.")
	}
	_, err = v.Call("POST", v.API("pipelines", made.Slug, "webhook"), nil, nil)
	if wrong, ok := pages.ProblemsOf(err); ok {
		return v.Refused(at, "Pipeline created, without a webhook. "+wrong.Sentence()+". You can try again at Settings, Webhooks.")
	}
	if err != nil {
		return err
	}
	return v.Done(at, "Pipeline and webhook created. Start its first build.")
}

// A repository is a repository of a connected host in a response.
type repository struct {
	Path          string  `json:"path"`
	Name          string  `json:"name"`
	Description   string  `json:"description"`
	DefaultBranch *string `json:"default_branch"`
	Private       bool    `json:"private"`
	HTTPSURL      *string `json:"https_url"`
	SSHURL        *string `json:"ssh_url"`
	Use           string  `json:"-"` // path of the form for a pipeline of it
}

// cloneURL returns the URL for a pipeline: without a token for jobs, a private repository is cloned with an SSH key.
func (r repository) cloneURL(host sourceHost) string {
	https, ssh := pages.Text(r.HTTPSURL), pages.Text(r.SSHURL)
	if https == "" || r.Private && !host.Clones && ssh != "" {
		return ssh
	}
	return https
}

// repositories lists the repositories of a connected host, to create a pipeline of one of them.
func (s *Site) repositories(v *pages.Visit) error {
	hosts, err := sourceHosts(v)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(hosts, func(h sourceHost) bool { return h.ConnectionID == v.FormQuery("connection") })
	if at < 0 {
		return core.Errorf(core.NotFound, "This source host is not connected.")
	}
	host := hosts[at]
	shown := struct {
		Host, Connection, Search string
		Repositories             []repository `json:"repositories"`
		Total                    int          `json:"total"`
		Complete                 bool         `json:"complete"`
		Problem                  string
		Here, New                string
	}{Host: host.Host, Connection: host.ConnectionID, Search: strings.TrimSpace(v.FormQuery("search")), Here: v.Place("pipelines", "repositories"), New: v.Place("pipelines", "new")}
	_, err = v.Call("GET", v.API("source-connections", host.ConnectionID, "repositories")+"?"+url.Values{"search": {shown.Search}}.Encode(), nil, &shown)
	status := http.StatusOK
	if wrong, ok := pages.RefusedFields(err); ok {
		shown.Problem, status = wrong.Sentence(), http.StatusUnprocessableEntity
	} else if err != nil {
		return err
	}
	for i := range shown.Repositories {
		r := &shown.Repositories[i]
		r.Use = v.Place("pipelines", "new") + "?" + url.Values{
			"host": {host.Host}, "name": {r.Name}, "repository": {r.cloneURL(host)}, "default_branch": {pages.Text(r.DefaultBranch)},
		}.Encode()
	}
	return v.Show(status, "repositories", pages.View{Title: "Repositories of " + shown.Host, Section: "pipelines", Page: shown})
}
