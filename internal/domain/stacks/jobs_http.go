package stacks

import (
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

type stackJobView struct {
	ID      string            `json:"id"`
	Env     map[string]string `json:"env"`
	Command string            `json:"command"`
}

func (s *Service) getJob(r *route.Request, stack *Stack) (stackJobView, error) {
	id, err := r.PathID("job", noJob)
	if err != nil {
		return stackJobView{}, err
	}
	v := stackJobView{ID: id}
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if err = s.checkVisible(q, stack, id); err != nil {
			return err
		}
		v.Env, v.Command, err = s.agents.JobForStack(q, r.Org, stack.ClusterID, id)
		return err
	})
	return v, err
}

type stackFinish struct {
	ExitStatus route.Opt[int] `json:"exit_status" doc:"0 is success. Defaults to -1."`
	Detail     string         `json:"detail" doc:"Reason, at most 4096 bytes."`
}

// maxDetail is the maximum length of the detail of a finished job, in bytes.
const maxDetail = 4096

type stackFinishedView struct{}

// A stackJobPath is the stack and the job that a path names.
type stackJobPath struct {
	stack *Stack
	id    string
}

// loadJob returns the job that the path names. It can have ended, but no other stack has reserved it.
func (s *Service) loadJob(r *route.Request) (j stackJobPath, err error) {
	if j.stack, err = s.load(r); err != nil {
		return j, err
	}
	if j.id, err = r.PathID("job", noJob); err != nil {
		return j, err
	}
	return j, s.db.Read(r.Context(), func(q *db.Q) error {
		_, err := s.findOwn(q, j.stack, j.id)
		return err
	})
}

func (s *Service) postFinish(r *route.Request, j stackJobPath, body stackFinish) (stackFinishedView, error) {
	switch {
	case strings.TrimSpace(body.Detail) == "":
		return stackFinishedView{}, core.Errorf(core.Unprocessable, "detail is required")
	case len(body.Detail) > maxDetail:
		return stackFinishedView{}, core.Errorf(core.Unprocessable, "detail must have at most %d bytes, not %d", maxDetail, len(body.Detail))
	}
	status := -1
	if body.ExitStatus.Set && !body.ExitStatus.Null {
		status = body.ExitStatus.Value
	}
	return stackFinishedView{}, s.finish(r.Context(), j.stack, j.id, status, body.Detail)
}
