package stacks

import (
	"strconv"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

type scheduledJobsView struct {
	Jobs     []scheduledJobView `json:"jobs"`
	PageInfo pageInfoView       `json:"page_info"`
	Queue    stackQueueView     `json:"cluster_queue"`
}

type scheduledJobView struct {
	ID          string                   `json:"id"`
	Priority    int                      `json:"priority"`
	Rules       []string                 `json:"agent_query_rules"`
	ScheduledAt core.Time                `json:"scheduled_at"`
	Pipeline    scheduledJobPipelineView `json:"pipeline"`
	Build       scheduledJobBuildView    `json:"build"`
	Step        scheduledJobStepView     `json:"step"`
}

type scheduledJobPipelineView struct {
	Slug string `json:"slug"`
	UUID string `json:"uuid"`
}

type scheduledJobBuildView struct {
	Number int    `json:"number"`
	Branch string `json:"branch"`
	UUID   string `json:"uuid"`
}

type scheduledJobStepView struct {
	Key *string `json:"key"`
}

type pageInfoView struct {
	HasNextPage bool    `json:"has_next_page"`
	EndCursor   *string `json:"end_cursor" doc:"Null when the list is empty."`
}

type stackQueueView struct {
	ID             string `json:"id"`
	DispatchPaused bool   `json:"dispatch_paused"`
	Paused         bool   `json:"paused" doc:"Same as dispatch_paused, for clients that use this name."`
}

// The bounds of lists.
const (
	defaultLimit = 100
	maxJobs      = 1000
	maxWait      = 30 // seconds
)

func (s *Service) getScheduledJobs(r *route.Request, stack *Stack) (scheduledJobsView, error) {
	none := scheduledJobsView{}
	key := r.FormQuery("queue_key")
	if key == "" {
		return none, core.Errorf(core.BadRequest, "queue_key is required; __default__ is the cluster's default queue")
	}
	limit, err := integer(r, "limit", defaultLimit, 1, maxJobs)
	if err != nil {
		return none, err
	}
	wait, err := integer(r, "wait", 0, 0, maxWait)
	if err != nil {
		return none, err
	}
	var after core.Cursor
	if text := r.FormQuery("after"); text != "" {
		if after, err = core.ParseCursor(text, 2); err != nil {
			return none, core.Errorf(core.BadRequest, "after is not a cursor of this list")
		}
	}
	p, err := s.listScheduled(r.Context(), r.Agent, key, after, limit, time.Duration(wait)*time.Second)
	if err != nil {
		return none, err
	}
	now := s.clock()
	if s.activity.recordPoll(p.queue.ID, stack.Key, p.jobs, now) {
		s.activity.writePoll(r.Context(), p.queue.ID, now)
	}
	return p.view(), nil
}

// integer returns an integer query parameter within bounds.
func integer(r *route.Request, name string, unset, least, most int) (int, error) {
	if !r.URL.Query().Has(name) {
		return unset, nil
	}
	n, err := strconv.Atoi(r.FormQuery(name))
	if err != nil || n < least || n > most {
		return 0, core.Errorf(core.BadRequest, "%s must be an integer from %d to %d", name, least, most)
	}
	return n, nil
}

func (p page) view() scheduledJobsView {
	paused := !p.queue.PausedAt.IsZero()
	v := scheduledJobsView{
		Jobs:     make([]scheduledJobView, len(p.jobs)),
		PageInfo: pageInfoView{HasNextPage: p.more},
		Queue:    stackQueueView{ID: p.queue.ID, DispatchPaused: paused, Paused: paused},
	}
	for i, j := range p.jobs {
		v.Jobs[i] = scheduledJobView{
			ID: j.ID, Priority: j.Priority, Rules: j.rules, ScheduledAt: core.At(j.ScheduledAt),
			Pipeline: scheduledJobPipelineView{Slug: j.build.PipelineSlug, UUID: j.PipelineID},
			Build:    scheduledJobBuildView{Number: j.build.Number, Branch: j.build.Branch, UUID: j.BuildID},
			Step:     scheduledJobStepView{Key: core.OrNull(j.StepKey)},
		}
	}
	if len(p.jobs) > 0 {
		end := p.jobs[len(p.jobs)-1].cursor().String()
		v.PageInfo.EndCursor = &end
	}
	return v
}
