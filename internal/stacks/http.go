package stacks

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/route"
)

const (
	tag       = "Stacks"
	stackPath = "/v3/stacks/{stack}"
)

// Routes returns the routes of the stacks API.
func (s *Service) Routes() []route.Route {
	routes := []route.Route{
		{
			Method: http.MethodPost, Path: "/v3/stacks/register", Summary: "Register a stack",
			Description: "Registers a new stack, or updates the one with the key. Idempotent.",
			Limit:       "default", Unprocessable: true,
			Errors:  []int{http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity},
			Handler: route.DoBody(s.postRegister),
		},
		{
			Method: http.MethodPost, Path: stackPath + "/deregister", Summary: "De-register a stack",
			Limit: "default", Status: http.StatusNoContent,
			Handler: route.On(s.load, s.postDeregister),
		},
		{
			Method: http.MethodGet, Path: stackPath + "/scheduled-jobs", Summary: "List scheduled jobs of a queue",
			Limit: "list-scheduled-jobs",
			Query: []route.Param{
				{Name: "queue_key", Doc: "The queue; __default__ is the cluster's default queue. Required."},
				{Name: "limit", Type: "integer", Doc: "At most so many jobs: 100 unless given, up to 1000."},
				{Name: "after", Doc: "A cursor: what comes after it."},
				{Name: "wait", Type: "integer", Doc: "Seconds, at most 30, to wait for a job when there is none."},
			},
			Errors:  []int{http.StatusBadRequest},
			Handler: route.On(s.load, s.getScheduledJobs),
		},
		{
			Method: http.MethodPut, Path: stackPath + "/scheduled-jobs/batch-reserve", Summary: "Reserve jobs",
			Limit:   "batch-reserve",
			Handler: route.OnBody(s.load, s.putBatchReserve),
		},
		{
			Method: http.MethodPost, Path: stackPath + "/job-acquisition-tokens", Summary: "Issue job acquisition tokens",
			Limit: "default", Status: http.StatusCreated,
			Handler: route.OnBody(s.load, s.postTokens),
		},
		{
			Method: http.MethodGet, Path: stackPath + "/jobs/{job}", Summary: "Get a job",
			Limit:   "show-job",
			Handler: route.On(s.load, s.getJob),
		},
		{
			Method: http.MethodPost, Path: stackPath + "/jobs/get-states", Summary: "Get the states of jobs",
			Limit:   "batch-load-job-states",
			Handler: route.OnBody(s.load, s.postStates),
		},
		{
			Method: http.MethodPost, Path: stackPath + "/jobs/{job}/finish", Summary: "Finish a job without an agent",
			Limit: "finish-job", Unprocessable: true,
			Errors:  []int{http.StatusUnprocessableEntity},
			Handler: route.OnBody(s.loadJob, s.postFinish),
		},
		{
			Method: http.MethodPost, Path: stackPath + "/notifications", Summary: "Tell people how jobs get on",
			Limit: "stack-notification", Unprocessable: true,
			Errors:  []int{http.StatusUnprocessableEntity},
			Handler: route.OnBody(s.load, s.postNotifications),
		},
	}
	for i := range routes {
		routes[i].Tag, routes[i].Auth = tag, route.Agent
	}
	return append(routes, s.timelineRoutes()...)
}

func (s *Service) load(r *route.Request) (*Stack, error) {
	return s.find(r.Context(), r.Agent, r.PathValue("stack"))
}

type stackRegister struct {
	Key      string                       `json:"key"`
	Type     string                       `json:"type" doc:"kubernetes, elastic or custom."`
	QueueKey string                       `json:"queue_key"`
	Metadata route.Opt[map[string]string] `json:"metadata"`
}

type stackView struct {
	ID             string            `json:"id"`
	OrganizationID string            `json:"organization_uuid"`
	Key            string            `json:"key"`
	Type           string            `json:"type"`
	QueueKey       string            `json:"cluster_queue_key"`
	Metadata       map[string]string `json:"metadata"`
	ConnectedAt    core.Time         `json:"last_connected_on"`
	State          string            `json:"state"`
}

func (s *Service) postRegister(r *route.Request, said stackRegister) (route.Made[stackView], error) {
	var none route.Made[stackView]
	if err := r.LimitStack(said.Key); err != nil {
		return none, err
	}
	stack := &Stack{Key: said.Key, Type: said.Type, QueueKey: said.QueueKey, Metadata: said.Metadata.Value}
	if err := stack.check(); err != nil {
		return none, err
	}
	if !said.Metadata.Set {
		return none, core.Errorf(core.Unprocessable, "metadata is required; it may be empty")
	}
	if stack.Metadata == nil {
		stack.Metadata = map[string]string{}
	}
	created, err := s.register(r.Context(), r.Agent, stack)
	if err != nil {
		return none, err
	}
	view := stackView{
		ID: stack.ID, OrganizationID: stack.OrganizationID, Key: stack.Key, Type: stack.Type, QueueKey: stack.QueueKey,
		Metadata: stack.Metadata, ConnectedAt: core.At(stack.ConnectedAt), State: stack.state(s.clock()),
	}
	return route.Made[stackView]{Body: view, New: created}, nil
}

func (s *Service) postDeregister(r *route.Request, stack *Stack) (route.Nothing, error) {
	return route.Nothing{}, s.deregister(r.Context(), stack)
}

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
	Paused         bool   `json:"paused" doc:"The same, for clients that know this name."`
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
	p, err := s.list(r.Context(), r.Agent, key, after, limit, time.Duration(wait)*time.Second)
	if err != nil {
		return none, err
	}
	s.notes.polled(p.queue.ID, stack.Key, p.jobs, s.clock())
	return p.view(), nil
}

// integer returns an integer among the query parameters.
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
			ID: j.id, Priority: j.priority, Rules: j.rules, ScheduledAt: core.At(j.scheduledAt),
			Pipeline: scheduledJobPipelineView{Slug: j.pipelineSlug, UUID: j.pipelineID},
			Build:    scheduledJobBuildView{Number: j.buildNumber, Branch: j.branch, UUID: j.buildID},
			Step:     scheduledJobStepView{Key: nullable(j.stepKey)},
		}
	}
	if len(p.jobs) > 0 {
		end := p.jobs[len(p.jobs)-1].cursor().String()
		v.PageInfo.EndCursor = &end
	}
	return v
}

// nullable is null for an empty text.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// jobIDs are the jobs that a call is about: UUIDs, each once, in the order in which they were given.
func jobIDs(raw json.RawMessage) ([]string, error) {
	wrong := core.Errorf(core.BadRequest, "job_uuids must be an array of job UUIDs")
	if len(raw) == 0 {
		return nil, core.Errorf(core.BadRequest, "job_uuids is required")
	}
	var texts []*string
	if raw[0] != '[' || json.Unmarshal(raw, &texts) != nil {
		return nil, wrong
	}
	if len(texts) > maxJobs {
		return nil, core.Errorf(core.BadRequest, "job_uuids must have at most %d items, not %d", maxJobs, len(texts))
	}
	ids := make([]string, 0, len(texts))
	seen := make(map[string]bool, len(texts))
	for _, text := range texts {
		if text == nil {
			return nil, wrong
		}
		id, ok := core.ParseID(*text)
		if !ok {
			return nil, core.Errorf(core.BadRequest, "job_uuids has an item that is not a UUID: %.60q", *text)
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// seconds returns a number of seconds of a body within bounds.
func seconds(o route.Opt[int], name string, unset, least, most int) (time.Duration, error) {
	n := unset
	if o.Set && !o.Null {
		n = o.Value
	}
	if n < least || n > most {
		return 0, core.Errorf(core.BadRequest, "%s must be from %d to %d", name, least, most)
	}
	return time.Duration(n) * time.Second, nil
}

// The bounds of reservations and tokens, in seconds.
const (
	defaultSeconds = 900
	maxSeconds     = 3600
)

type batchReserve struct {
	Jobs   json.RawMessage `json:"job_uuids" doc:"Array of at most 1000 job UUIDs."`
	Expiry route.Opt[int]  `json:"reservation_expiry_seconds" doc:"900 unless given, at most 3600."`
}

type reservedView struct {
	Reserved    []string `json:"reserved"`
	NotReserved []string `json:"not_reserved"`
}

func (s *Service) putBatchReserve(r *route.Request, stack *Stack, body batchReserve) (reservedView, error) {
	v := reservedView{Reserved: []string{}, NotReserved: []string{}}
	ids, err := jobIDs(body.Jobs)
	if err != nil {
		return v, err
	}
	expiry, err := seconds(body.Expiry, "reservation_expiry_seconds", defaultSeconds, 1, maxSeconds)
	if err != nil {
		return v, err
	}
	got, err := s.reserve(r.Context(), stack, ids, expiry)
	if err != nil {
		return v, err
	}
	reserved := make(map[string]bool, len(got))
	for _, id := range got {
		reserved[id] = true
	}
	for _, id := range ids {
		if reserved[id] {
			v.Reserved = append(v.Reserved, id)
		} else {
			v.NotReserved = append(v.NotReserved, id)
		}
	}
	return v, nil
}

type issueTokens struct {
	Jobs     json.RawMessage `json:"job_uuids" doc:"Array of at most 1000 job UUIDs."`
	Lifetime route.Opt[int]  `json:"token_lifetime_seconds" doc:"900 unless given, from 1 to 3600."`
}

type acquisitionTokensView struct {
	Tokens    []acquisitionTokenView `json:"job_acquisition_tokens"`
	NotIssued []string               `json:"not_issued"`
	Reasons   map[string]string      `json:"not_issued_reasons" doc:"By job: not_found, not_reserved, other_cluster, reservation_expired or not_command_job."`
}

type acquisitionTokenView struct {
	JobID     string    `json:"job_uuid"`
	Token     string    `json:"job_acquisition_token"`
	ExpiresAt core.Time `json:"expires_at"`
}

func (s *Service) postTokens(r *route.Request, stack *Stack, body issueTokens) (acquisitionTokensView, error) {
	v := acquisitionTokensView{Tokens: []acquisitionTokenView{}, NotIssued: []string{}}
	ids, err := jobIDs(body.Jobs)
	if err != nil {
		return v, err
	}
	lifetime, err := seconds(body.Lifetime, "token_lifetime_seconds", defaultSeconds, 1, maxSeconds)
	if err != nil {
		return v, err
	}
	tokens, refused, err := s.issue(r.Context(), r.Agent, stack, ids, lifetime)
	if err != nil {
		return v, err
	}
	for _, t := range tokens {
		v.Tokens = append(v.Tokens, acquisitionTokenView{t.jobID, t.text, core.At(t.expires)})
	}
	for _, id := range ids {
		if refused[id] != "" {
			v.NotIssued = append(v.NotIssued, id)
		}
	}
	v.Reasons = refused
	r.SetHeader("Cache-Control", "no-store")
	return v, nil
}

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
	env, command, err := s.agents.JobForStack(r.Context(), r.Org, stack.ClusterID, id)
	return stackJobView{ID: id, Env: env, Command: command}, err
}

type getStates struct {
	Jobs json.RawMessage `json:"job_uuids" doc:"Array of at most 1000 job UUIDs."`
}

type jobStatesView struct {
	States map[string]string `json:"states"`
}

func (s *Service) postStates(r *route.Request, stack *Stack, body getStates) (jobStatesView, error) {
	ids, err := jobIDs(body.Jobs)
	if err != nil {
		return jobStatesView{}, err
	}
	states, err := s.states(r.Context(), stack, ids)
	return jobStatesView{states}, err
}

type stackFinish struct {
	ExitStatus route.Opt[int] `json:"exit_status" doc:"-1 unless given; 0 is success."`
	Detail     string         `json:"detail" doc:"Why, in at most 4096 bytes."`
}

// maxDetail is the length of the longest detail of a finished job, in bytes.
const maxDetail = 4096

type stackFinishedView struct{}

// A jobOfStack is a job as one stack sees it.
type jobOfStack struct {
	stack *Stack
	id    string
}

// loadJob finds a job that the stack may finish, whether or not there is something to finish.
func (s *Service) loadJob(r *route.Request) (j jobOfStack, err error) {
	if j.stack, err = s.load(r); err != nil {
		return j, err
	}
	if j.id, err = r.PathID("job", noJob); err != nil {
		return j, err
	}
	_, err = s.standing(r.Context(), j.stack, j.id)
	return j, err
}

func (s *Service) postFinish(r *route.Request, j jobOfStack, body stackFinish) (stackFinishedView, error) {
	switch {
	case body.Detail == "":
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

type createNotifications struct {
	Notifications json.RawMessage `json:"notifications" doc:"Array of at most 1000 objects: job_uuid, detail, and optionally timestamp."`
}

type notificationErrorsView struct {
	Errors []notificationErrorView `json:"errors"`
}

type notificationErrorView struct {
	Error   string `json:"error"`
	Indexes []int  `json:"indexes" doc:"Of the notifications that it is about, from 0."`
}

func (s *Service) postNotifications(r *route.Request, stack *Stack, body createNotifications) (notificationErrorsView, error) {
	v := notificationErrorsView{Errors: []notificationErrorView{}}
	if len(body.Notifications) == 0 {
		return v, core.Errorf(core.Unprocessable, "notifications is required")
	}
	var sent []json.RawMessage
	if body.Notifications[0] != '[' || json.Unmarshal(body.Notifications, &sent) != nil {
		return v, core.Errorf(core.Unprocessable, "notifications must be an array")
	}
	if len(sent) > maxJobs {
		return v, core.Errorf(core.Unprocessable, "notifications must have at most %d items, not %d", maxJobs, len(sent))
	}
	var wrong complaints
	list := make([]notification, 0, len(sent))
	for i, raw := range sent {
		if n, complaint := readNotification(raw); complaint != "" {
			wrong.add(i, complaint)
		} else {
			n.index = i
			list = append(list, n)
		}
	}
	if err := s.notify(r.Context(), stack, list, &wrong); err != nil {
		return v, err
	}
	for _, text := range wrong.texts {
		v.Errors = append(v.Errors, notificationErrorView{text, wrong.indexes[text]})
	}
	return v, nil
}

// readNotification reads one notification, or says what is wrong with it.
func readNotification(raw json.RawMessage) (n notification, complaint string) {
	var sent struct {
		JobID     json.RawMessage `json:"job_uuid"`
		Detail    json.RawMessage `json:"detail"`
		Timestamp json.RawMessage `json:"timestamp"`
	}
	if json.Unmarshal(raw, &sent) != nil {
		return n, "notification must be an object"
	}
	jobID, ok := text(sent.JobID)
	switch {
	case !ok:
		return n, "job_uuid must be a string"
	case jobID == "":
		return n, "job_uuid is required"
	}
	if n.jobID, ok = core.ParseID(jobID); !ok {
		return n, "job_uuid is not a UUID"
	}
	if n.detail, ok = text(sent.Detail); !ok {
		return n, "detail must be a string"
	}
	if len(sent.Timestamp) == 0 || string(sent.Timestamp) == "null" {
		return n, ""
	}
	at, _ := text(sent.Timestamp)
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return n, "timestamp must be a time in ISO 8601"
	}
	n.at = t
	return n, ""
}

// text reads a string; absent and null are "".
func text(raw json.RawMessage) (s string, ok bool) {
	return s, len(raw) == 0 || json.Unmarshal(raw, &s) == nil
}
