package agents

import (
	"net/http"
	"strconv"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// logRoutes take what jobs print, also for a while after they have ended. An agent that is refused loses
// what it has sent, so nobody is told to slow down here.
func (s *Service) logRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodPost, Path: jobPath + "/chunks", Tag: jobTag, Summary: "Add to the job's log",
			Description: "The body is bytes, gzipped as Content-Encoding says. Chunks may come in any order, and twice. What comes after the log was deleted is dropped.",
			Query:       joblog.ChunkParams,
			Errors:      []int{http.StatusRequestEntityTooLarge},
			Auth:        route.Job,
			Handler:     route.On(s.loadLate, s.postChunk),
		},
		{
			Method: http.MethodPost, Path: jobPath + "/header_times", Tag: jobTag, Summary: "Tell when sections of the job's log began",
			Auth:    route.Job,
			Handler: route.OnBody(s.loadLate, s.postHeaderTimes),
		},
	}
}

// logOf is the log of a job.
func logOf(r *route.Request, h builds.Holding) joblog.Job {
	return joblog.Job{OrganizationID: r.Org.ID, PipelineID: h.PipelineID, BuildID: h.BuildID, ID: h.JobID}
}

func (s *Service) postChunk(r *route.Request, h builds.Holding) (emptyView, error) {
	return emptyView{}, s.logs.Receive(r, logOf(r, h))
}

type headerTimesSet struct {
	HeaderTimes map[string]string `json:"header_times" doc:"Times in RFC 3339, by the running number of the section."`
}

func (s *Service) postHeaderTimes(r *route.Request, h builds.Holding, body headerTimesSet) (emptyView, error) {
	times := make(map[int]time.Time, len(body.HeaderTimes))
	for number, text := range body.HeaderTimes {
		n, err := strconv.Atoi(number)
		if err != nil {
			return emptyView{}, core.Errorf(core.Unprocessable, "%q in header_times is not the number of a section", number)
		}
		if times[n], err = time.Parse(time.RFC3339Nano, text); err != nil {
			return emptyView{}, core.Errorf(core.Unprocessable, "%q in header_times is not a time such as 2026-01-02T03:04:05Z", text)
		}
	}
	return emptyView{}, s.logs.SetHeaderTimes(r.Context(), logOf(r, h), times)
}
