package clusterpages

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"stackyard/internal/app/web/live"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Site) agentRoutes() []route.Route {
	const path = "/organizations/{org}/agents"
	return append(append(s.Live.Page(path, pages.MembersOnly, s.agents, s.watchAgents), s.Live.Page(path+"/{agent}", pages.MembersOnly, pages.On(s.loadAgent, s.agent), s.watchAgents)...),
		s.post("/agents/{agent}/pause", pages.On(s.loadAgent, s.pauseAgent)),
		s.post("/agents/{agent}/resume", s.resumeAgent),
		s.post("/agents/{agent}/stop", pages.WithForm(s.stopAgent)),
	)
}

// watchAgents says when agents or their jobs change.
func (s *Site) watchAgents(v *pages.Visit) (live.Watch, error) {
	return live.Watch{Topics: []string{agents.OrganizationTopic(v.Org.ID), builds.OrganizationTopic(v.Org.ID)}}, nil
}

// An agent is an agent in a response.
type agent struct {
	ID             string     `json:"id"`
	Name           string     `json:"name"`
	State          string     `json:"connection_state"`
	Hostname       string     `json:"hostname"`
	Address        string     `json:"ip_address"`
	UserAgent      string     `json:"user_agent"`
	Version        string     `json:"version"`
	OS             string     `json:"os_id"`
	Arch           string     `json:"arch"`
	Queue          string     `json:"queue"`
	ClusterID      string     `json:"cluster_id"`
	QueueID        *string    `json:"cluster_queue_id"`
	CreatedAt      time.Time  `json:"created_at"`
	ConnectedAt    *time.Time `json:"connected_at"`
	DisconnectedAt *time.Time `json:"disconnected_at"`
	LostAt         *time.Time `json:"lost_at"`
	StoppedAt      *time.Time `json:"stopped_at"`
	LastJobAt      *time.Time `json:"last_job_finished_at"`
	MetaData       []string   `json:"meta_data"`
	Priority       *int       `json:"priority"`
	Paused         bool       `json:"paused"`
	PausedAt       *time.Time `json:"paused_at"`
	PausedBy       *person    `json:"paused_by"`
	PausedNote     *string    `json:"paused_note"`
	PausedMinutes  *int       `json:"paused_timeout_in_minutes"`
	Job            *struct {
		Name      string     `json:"name"`
		Command   string     `json:"command"`
		WebURL    string     `json:"web_url"`
		StartedAt *time.Time `json:"started_at"`
	} `json:"job"`
}

// Class returns the class of the badge of the agent's state.
func (a agent) Class() string {
	switch {
	case a.Paused:
		return "warn"
	case a.State == "connected":
		return "good"
	case a.State == "lost":
		return "bad"
	}
	return ""
}

// Badge returns the agent's state in a word.
func (a agent) Badge() string {
	if a.Paused && a.State == "connected" {
		return "paused"
	}
	return a.State
}

// Connected reports whether the agent can be paused and stopped.
func (a agent) Connected() bool { return a.State == "connected" || a.State == "stopping" }

// JobName returns a name of the agent's job.
func (a agent) JobName() string {
	if a.Job.Name != "" {
		return a.Job.Name
	}
	first, _, _ := strings.Cut(a.Job.Command, "\n")
	return first
}

// agentRow is an agent with the paths of its page and its job.
type agentRow struct {
	agent
	Path, JobPath string
}

func rowOf(v *pages.Visit, a agent) agentRow {
	row := agentRow{agent: a, Path: v.Place("agents", a.ID)}
	if a.Job != nil {
		row.JobPath = v.Local(a.Job.WebURL)
	}
	return row
}

// agents lists the agents of the organization.
func (s *Site) agents(v *pages.Visit) error {
	page, err := v.Page()
	if err != nil {
		return err
	}
	query := v.Given("name", "hostname", "version", "cluster_queue_id", "page", "per_page")
	var found []agent
	next, err := v.Call("GET", v.API("agents")+"?"+query.Encode(), nil, &found)
	if err != nil {
		return err
	}
	shown := struct {
		Rows                    []agentRow
		Name, Hostname, Version string
		QueueID                 string
		Filtered                bool
		Pages                   []pages.PageLink
		Clusters                string
		Command                 string
	}{
		Name: v.FormQuery("name"), Hostname: v.FormQuery("hostname"), Version: v.FormQuery("version"), QueueID: v.FormQuery("cluster_queue_id"),
		Pages: v.PageLinks(page, next.After, "Previous", "Next"), Clusters: v.Place("clusters"), Command: s.agentCommand("TOKEN"),
	}
	shown.Filtered = shown.Name+shown.Hostname+shown.Version+shown.QueueID != ""
	for _, a := range found {
		shown.Rows = append(shown.Rows, rowOf(v, a))
	}
	return v.Show(http.StatusOK, "agents", pages.View{Title: "Agents", Section: "agents", Page: shown})
}

// agentCommand returns the command that starts an agent with a token.
func (s *Site) agentCommand(token string) string { return AgentCommand(s.Site, token, "") }

// AgentCommand returns the command that starts an agent with a token, for a queue unless that is empty.
func AgentCommand(s *pages.Site, token, queue string) string {
	command := "stackyard agent --endpoint " + s.Public.To("v3") + " --token " + token
	if queue != "" {
		command += " --queue " + queue
	}
	return command
}

func (s *Site) loadAgent(v *pages.Visit) (a agent, err error) {
	_, err = v.Call("GET", v.API("agents", v.PathValue("agent")), nil, &a)
	return a, err
}

// pauseForm is the form that pauses an agent.
func (s *Site) pauseForm(v *pages.Visit, a agent) pages.Form {
	return pages.Form{ID: "pause", Action: v.Place("agents", a.ID, "pause"), Submit: "Pause agent", Fields: []pages.Field{
		{Name: "note", Label: "Note", Hint: "Says why, on this page. The agent finishes the job it has and takes no other."},
		{Name: "timeout_in_minutes", Label: "Minutes", Kind: pages.NumberField, Value: "5", Hint: "After this time the agent takes jobs again."},
	}}
}

func (s *Site) agent(v *pages.Visit, a agent) error {
	return s.showAgent(v, http.StatusOK, a, s.pauseForm(v, a))
}

func (s *Site) showAgent(v *pages.Visit, status int, a agent, pause pages.Form) error {
	queue := ""
	if a.QueueID != nil {
		queue = v.Place("clusters", a.ClusterID, "queues", *a.QueueID)
	}
	return v.Show(status, "agent", pages.View{Title: a.Name, Section: "agents", Page: struct {
		agentRow
		Agents, QueuePath string
		MayStop           bool
		Pause             pages.Form
		Resume            pages.Form
		Stop              pages.Confirm
	}{
		agentRow: rowOf(v, a), Agents: v.Place("agents"), QueuePath: queue, MayStop: v.Member.Can(identity.StopAgents, v.Org), Pause: pause,
		Resume: pages.Form{Action: v.Place("agents", a.ID, "resume"), Submit: "Resume agent"},
		Stop: pages.Confirm{Summary: "Stop agent", Warning: "The agent disconnects after the job it has, or at once. A job that it has is canceled then.", Form: pages.Form{
			ID: "stop", Action: v.Place("agents", a.ID, "stop"), Submit: "Stop agent", Danger: true,
			Fields: []pages.Field{{Name: "force", Label: "At once", Kind: pages.CheckField, Hint: "Do not wait for the job."}},
		}},
	}})
}

func (s *Site) pauseAgent(v *pages.Visit, a agent) error {
	return v.Submit(s.pauseForm(v, a), "PUT", v.API("agents", a.ID, "pause"), v.Place("agents", a.ID), "Agent paused.", func(f pages.Form) error {
		return s.showAgent(v, http.StatusUnprocessableEntity, a, f)
	})
}

func (s *Site) resumeAgent(v *pages.Visit) error {
	id := v.PathValue("agent")
	return v.Act("PUT", v.API("agents", id, "resume"), map[string]any{}, v.Place("agents", id), "Agent resumed.")
}

func (s *Site) stopAgent(v *pages.Visit, form url.Values) error {
	id := v.PathValue("agent")
	return v.Act("PUT", v.API("agents", id, "stop"), map[string]any{"force": form.Get("force") != ""}, v.Place("agents", id), "Agent asked to stop.")
}
