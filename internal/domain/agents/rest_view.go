package agents

import (
	"slices"
	"strings"

	"stackyard/internal/domain/buildapi"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

type agentView struct {
	ID                string             `json:"id"`
	GraphQLID         string             `json:"graphql_id"`
	URL               string             `json:"url"`
	WebURL            string             `json:"web_url"`
	Name              string             `json:"name"`
	ConnectionState   State              `json:"connection_state"`
	Hostname          string             `json:"hostname"`
	IPAddress         string             `json:"ip_address"`
	UserAgent         string             `json:"user_agent"`
	Version           string             `json:"version"`
	OSID              string             `json:"os_id"`
	Arch              string             `json:"arch"`
	Queue             string             `json:"queue" doc:"Key of the agent's queue."`
	ClusterID         string             `json:"cluster_id"`
	ClusterURL        string             `json:"cluster_url"`
	ClusterQueueID    *string            `json:"cluster_queue_id" doc:"Null when the queue was deleted."`
	ClusterQueueURL   *string            `json:"cluster_queue_url"`
	Creator           identity.UserView  `json:"creator" doc:"The user who created its agent token, or the token itself if the user is unknown."`
	CreatedAt         core.Time          `json:"created_at"`
	ConnectedAt       core.Time          `json:"connected_at"`
	DisconnectedAt    core.Time          `json:"disconnected_at" doc:"Null while the agent is connected or lost."`
	LostAt            core.Time          `json:"lost_at"`
	StoppedAt         core.Time          `json:"stopped_at"`
	Job               *buildapi.JobView  `json:"job" doc:"The job that the agent runs, if any."`
	LastJobFinishedAt core.Time          `json:"last_job_finished_at"`
	Priority          *int               `json:"priority"`
	Tags              []string           `json:"meta_data"`
	Paused            bool               `json:"paused"`
	PausedAt          core.Time          `json:"paused_at"`
	PausedBy          *identity.UserView `json:"paused_by" doc:"Null when a job or the agent itself paused it."`
	PausedNote        *string            `json:"paused_note"`
	PausedMinutes     *int               `json:"paused_timeout_in_minutes"`
}

// views returns the views of agents, each with its job if the caller can see it.
func (s *Service) views(r *route.Request, agents []*Agent) ([]agentView, error) {
	ids := make([]string, len(agents))
	for i, a := range agents {
		ids[i] = a.ID
	}
	var jobs map[string]*buildapi.JobView
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		jobs, err = s.buildAPI.JobsOfAgents(r, q, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	views := make([]agentView, len(agents))
	for i, a := range agents {
		views[i] = s.view(r, a)
		views[i].Job = jobs[a.ID]
	}
	return views, nil
}

func (s *Service) view(r *route.Request, a *Agent) agentView {
	v := agentView{
		ID:                a.ID,
		GraphQLID:         core.GraphQLID("Agent", a.ID),
		URL:               s.public.Org(r.Org.Slug, "agents", a.ID),
		WebURL:            s.public.To("organizations", r.Org.Slug, "agents", a.ID),
		Name:              a.Name,
		ConnectionState:   a.State,
		Hostname:          a.Hostname,
		IPAddress:         a.Address,
		UserAgent:         a.UserAgent,
		Version:           a.Version,
		OSID:              osID(a.OS),
		Arch:              a.Arch,
		Queue:             a.QueueKey,
		ClusterID:         a.ClusterID,
		ClusterURL:        s.public.Org(r.Org.Slug, "clusters", a.ClusterID),
		Creator:           s.creator(a),
		CreatedAt:         core.At(a.CreatedAt),
		ConnectedAt:       core.At(a.ConnectedAt),
		DisconnectedAt:    core.At(a.DisconnectedAt),
		LostAt:            core.At(a.LostAt),
		StoppedAt:         core.At(a.StoppedAt),
		LastJobFinishedAt: core.At(a.LastJobFinishedAt),
		Priority:          a.Priority,
		Tags:              a.Tags,
	}
	if a.QueueID != "" {
		url := s.public.Org(r.Org.Slug, "clusters", a.ClusterID, "queues", a.QueueID)
		v.ClusterQueueID, v.ClusterQueueURL = &a.QueueID, &url
	}
	if !a.Pause.At.IsZero() {
		v.Paused, v.PausedAt, v.PausedBy, v.PausedMinutes = true, core.At(a.Pause.At), a.Pause.By.View(s.public), &a.Pause.Minutes
		if a.Pause.Note != "" {
			v.PausedNote = &a.Pause.Note
		}
	}
	return v
}

// creator returns the creator of the agent's token, or else a user view of the token.
func (s *Service) creator(a *Agent) identity.UserView {
	if a.Creator != nil {
		return *a.Creator.View(s.public)
	}
	return identity.UserView{
		ID:        a.TokenID,
		GraphQLID: core.GraphQLID("ClusterToken", a.TokenID),
		Name:      a.TokenName,
		AvatarURL: s.public.To("avatars", a.TokenID+".svg"),
		CreatedAt: core.At(a.CreatedAt),
	}
}

// osID returns the short name of an agent's operating system: the value of ID in /etc/os-release, or else the
// first word.
func osID(os string) string {
	for line := range strings.Lines(os) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "ID="); ok {
			return strings.ToLower(strings.Trim(id, `"'`))
		}
	}
	words := strings.Fields(os)
	if i := slices.Index(words, "ProductName:"); i >= 0 && i+1 < len(words) { // macOS
		return strings.ToLower(words[i+1])
	}
	if len(words) == 0 {
		return ""
	}
	return strings.ToLower(words[0])
}
