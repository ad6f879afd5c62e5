package buildapi

import (
	"encoding/json"
	"maps"
	"strconv"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

// reload returns the current state of a job of the same build.
func (s *Service) reload(r *route.Request, o builds.OnJob, id string) (JobView, error) {
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if o.Job, err = builds.JobByID(q, r.Org.ID, id); err != nil {
			return err
		}
		return s.builds.FillAgentNames(q, r.Org.ID, o.Job)
	})
	if err != nil {
		return JobView{}, err
	}
	return s.jobView(r, o.Pipeline, o.Build, o.Job), nil
}

type jobRetry struct {
	Debug bool `json:"debug" doc:"Keep the environment of the new job for up to 30 minutes if it fails, so that people can open a shell in it. It needs remote access to the job."`
}

func (s *Service) putRetry(r *route.Request, o builds.OnJob, body jobRetry) (JobView, error) {
	retry := s.builds.Retry
	if body.Debug {
		if err := s.checkDebug(r.Context(), r.Org, r.Member, o.Job); err != nil {
			return JobView{}, err
		}
		retry = s.builds.RetryForDebugging
	}
	next, err := retry(r.Context(), r.Org.ID, o.ID, &r.Caller.User)
	if err != nil {
		return JobView{}, err
	}
	return s.jobView(r, o.Pipeline, o.Build, next), nil
}

type jobReprioritize struct {
	Priority jsonText `json:"priority" doc:"Jobs with a higher one go first."`
}

// jsonText is a JSON value as text. Other routes answer a field that is not an integer with status 422; this one has
// its own error.
type jsonText string

// UnmarshalJSON keeps the text.
func (t *jsonText) UnmarshalJSON(b []byte) error {
	*t = jsonText(b)
	return nil
}

// JSONSchema describes what the text must be.
func (jsonText) JSONSchema() map[string]any { return map[string]any{"type": "integer"} }

func (b jobReprioritize) number() (int, error) {
	n, err := strconv.ParseInt(string(b.Priority), 10, 32)
	if err != nil {
		return 0, core.Errorf(core.BadRequest, "Priority must be an integer")
	}
	return int(n), nil
}

func (s *Service) putReprioritize(r *route.Request, o builds.OnJob, body jobReprioritize) (JobView, error) {
	priority, err := body.number()
	if err != nil {
		return JobView{}, err
	}
	if err := o.Pipeline.Mutable(); err != nil {
		return JobView{}, err
	}
	if err := s.builds.Reprioritize(r.Context(), r.Org.ID, o.ID, priority); err != nil {
		return JobView{}, err
	}
	return s.reload(r, o, o.ID)
}

func (s *Service) putCancelJob(r *route.Request, o builds.OnJob) (JobView, error) {
	if err := s.builds.CancelJob(r.Context(), r.Org.ID, o.ID); err != nil {
		return JobView{}, err
	}
	return s.reload(r, o, o.ID)
}

type jobUnblock struct {
	Unblocker route.Opt[string] `json:"unblocker" doc:"The id of the user who unblocks the job; the caller unless given."`
	Fields    fieldValues       `json:"fields" doc:"The values of the step's fields, by their keys."`
}

// fieldValues are the values of a block step's fields by key. Null counts as not given.
type fieldValues texts

// UnmarshalJSON reads an object.
func (v *fieldValues) UnmarshalJSON(b []byte) error {
	var sent map[string]json.RawMessage
	if err := json.Unmarshal(b, &sent); err != nil {
		return err
	}
	maps.DeleteFunc(sent, func(_ string, raw json.RawMessage) bool { return string(raw) == "null" })
	read, err := textsOf(sent)
	*v = fieldValues(read)
	return err
}

// JSONSchema describes the object.
func (fieldValues) JSONSchema() map[string]any { return texts{}.JSONSchema() }

func (s *Service) putUnblock(r *route.Request, o builds.OnJob, body jobUnblock) (JobView, error) {
	by := r.Caller.User.ID
	if body.Unblocker.Value != "" {
		by = body.Unblocker.Value
	}
	if err := s.builds.Unblock(r.Context(), o.Job, by, body.Fields); err != nil {
		return JobView{}, err
	}
	return s.reload(r, o, o.ID)
}
