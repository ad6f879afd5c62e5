package jobapi

import (
	"net/http"
	"strconv"
	"time"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// logRoutes receive the output of jobs, also for a while after they have ended. They have no rate limit: an
// agent that is refused loses its output.
func (s *Service) logRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodPost, Path: agents.JobPath + "/chunks", Tag: agents.JobTag, Summary: "Append to the job's log",
			Description: "The body is bytes, optionally with Content-Encoding gzip. Chunks can arrive in any order and repeatedly. Chunks that arrive after the log was deleted are dropped.",
			Query:       joblog.ChunkParams,
			Errors:      []int{http.StatusRequestEntityTooLarge},
			Auth:        route.Job,
			Handler:     route.On(s.agents.LoadLogJob, s.postChunk),
		},
		{
			Method: http.MethodPost, Path: agents.JobPath + "/header_times", Tag: agents.JobTag, Summary: "Set the start times of log sections",
			Auth:    route.Job,
			Handler: route.OnBody(s.agents.LoadRecentJob, s.postHeaderTimes),
		},
	}
}

// logOfJob returns the id of a job's log.
func logOfJob(r *route.Request, h builds.Holding) joblog.Job {
	return joblog.Job{OrganizationID: r.Org.ID, PipelineID: h.PipelineID, BuildID: h.BuildID, ID: h.JobID}
}

func (s *Service) postChunk(r *route.Request, h builds.Holding) (agents.EmptyView, error) {
	return agents.EmptyView{}, s.logs.Receive(r, logOfJob(r, h))
}

type headerTimesSet struct {
	HeaderTimes map[string]string `json:"header_times" doc:"RFC 3339 times, by section number."`
}

func (s *Service) postHeaderTimes(r *route.Request, h builds.Holding, body headerTimesSet) (agents.EmptyView, error) {
	times := make(map[int]time.Time, len(body.HeaderTimes))
	for number, text := range body.HeaderTimes {
		n, err := strconv.Atoi(number)
		if err != nil {
			return agents.EmptyView{}, core.Errorf(core.Unprocessable, "%q in header_times is not the number of a section", number)
		}
		if times[n], err = time.Parse(time.RFC3339Nano, text); err != nil {
			return agents.EmptyView{}, core.Errorf(core.Unprocessable, "%q in header_times is not a time such as 2026-01-02T03:04:05Z", text)
		}
	}
	return agents.EmptyView{}, s.logs.SetHeaderTimes(r.Context(), logOfJob(r, h), times)
}
