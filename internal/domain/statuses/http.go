package statuses

import (
	"net/http"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Routes returns the route of commit statuses.
func (s *Service) Routes() []route.Route {
	return []route.Route{{
		Method: http.MethodGet, Path: builds.BuildPath + "/commit-statuses", Tag: "Builds", Summary: "List the commit statuses of a build",
		Description: "The newest state of each context, and why it could not be sent to the source host. They are kept for a week.",
		Scope:       identity.ReadBuilds, Permission: identity.ReadPipeline,
		Handler: route.On(s.load, s.list),
	}}
}

type statusView struct {
	Context     string    `json:"context"`
	Commit      string    `json:"commit"`
	State       string    `json:"state" doc:"pending, running, blocked, passed, failed or canceled."`
	Description string    `json:"description"`
	TargetURL   string    `json:"target_url"`
	Sent        bool      `json:"sent" doc:"Whether the host has this state, or refused it: then there is an error."`
	SentAt      core.Time `json:"sent_at"`
	Error       *string   `json:"error" doc:"What the host said to the last attempt, unless it succeeded."`
}

// load returns the build in the path. Visitors of a public pipeline do not see its statuses.
func (s *Service) load(r *route.Request) (builds.OnBuild, error) {
	o, err := s.Builds.LoadOnBuild(r)
	if err == nil && o.Pipeline.Visited() {
		err = core.Errorf(core.NotFound, "No build found")
	}
	return o, err
}

func (s *Service) list(r *route.Request, o builds.OnBuild) ([]statusView, error) {
	var found []*Status
	err := s.DB.Read(r.Context(), func(q *db.Q) (err error) {
		found, err = ofBuild(q, o.OrganizationID, o.ID)
		return err
	})
	views := make([]statusView, len(found))
	for i, st := range found {
		views[i] = statusView{
			Context: st.Context, Commit: st.Commit, State: string(st.State), Description: st.Description, TargetURL: st.URL,
			Sent: st.SentVersion >= st.Version, SentAt: core.At(st.SentAt), Error: core.OrNull(st.Error),
		}
	}
	return views, err
}
