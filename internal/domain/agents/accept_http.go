package agents

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/plan"
)

func (s *Service) acceptRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodPut, Path: JobPath + "/accept", Tag: agentTag, Summary: "Accept an offered job",
			Auth:    route.Session,
			Errors:  []int{http.StatusUnprocessableEntity},
			Handler: route.On(s.loadCaller, s.putAccept),
		},
		{
			Method: http.MethodPut, Path: JobPath + "/acquire", Tag: agentTag, Summary: "Acquire a job that was not offered",
			Description: "Returns 422 when the job can no longer be acquired, or not by this agent, and 423 when it cannot be acquired yet.",
			Auth:        route.Session,
			Errors:      []int{http.StatusUnprocessableEntity, http.StatusLocked},
			Handler:     route.On(s.loadCaller, s.putAcquire),
		},
	}
}

// The limits of log chunks that agents are asked to keep.
const (
	maxChunk      = 102400 // bytes
	chunkInterval = 1      // seconds
)

type takenJobView struct {
	ID                    string            `json:"id"`
	State                 string            `json:"state"`
	Env                   map[string]string `json:"env"`
	Token                 string            `json:"token" doc:"Authenticates requests about this job while it runs."`
	Step                  takenStepView     `json:"step"`
	MatrixPermutation     map[string]any    `json:"matrix_permutation,omitempty"`
	ChunksMaxSizeBytes    int               `json:"chunks_max_size_bytes"`
	ChunksIntervalSeconds int               `json:"chunks_interval_seconds"`
	Priority              int               `json:"priority"`
	RunnableAt            core.Time         `json:"runnable_at"`
	// Debug makes our own agent keep the environment of a failed job.
	Debug bool `json:"debug,omitempty" doc:"Whether the environment is kept for a while if the job fails."`
}

// takenStepView is the step as the pipeline defines it, with the attributes that agents read.
type takenStepView struct {
	Command   string            `json:"command,omitempty"`
	Plugins   json.RawMessage   `json:"plugins,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Matrix    any               `json:"matrix,omitempty"`
	Signature any               `json:"signature,omitempty"`
	Secrets   []stepSecretView  `json:"secrets,omitempty"`
	Image     any               `json:"image,omitempty"`
	Checkout  any               `json:"checkout,omitempty"`
	Cache     any               `json:"cache,omitempty"`
}

type stepSecretView struct {
	Key      string `json:"key"`
	Variable string `json:"environment_variable"`
}

func (t acceptedJob) view() takenJobView {
	return takenJobView{
		ID:                    t.Job.ID,
		State:                 string(t.Job.State),
		Env:                   t.env,
		Token:                 t.token,
		Step:                  stepView(t.Job.StepWork),
		MatrixPermutation:     permutation(t.Job.Matrix),
		ChunksMaxSizeBytes:    maxChunk,
		ChunksIntervalSeconds: chunkInterval,
		Priority:              t.Job.Priority,
		RunnableAt:            core.At(t.Job.RunnableAt),
		Debug:                 t.Job.Debug,
	}
}

func stepView(w plan.Work) takenStepView {
	return takenStepView{
		Command:   w.Command,
		Plugins:   w.Plugins,
		Env:       w.Env,
		Matrix:    w.Attributes["matrix"],
		Signature: w.Attributes["signature"],
		Secrets:   lastOfEach(stepSecrets(w.Attributes["secrets"])),
		Image:     w.Attributes["image"],
		Checkout:  w.Attributes["checkout"],
		Cache:     w.Attributes["cache"],
	}
}

// permutation returns the matrix values of a job, by dimension. The only dimension of a simple matrix has no
// name.
func permutation(matrix any) map[string]any {
	switch values := matrix.(type) {
	case nil:
		return nil
	case map[string]any:
		return values
	default:
		return map[string]any{"": values}
	}
}

// stepSecrets returns the secrets of a step. A step lists keys, or variables with keys, or maps variables to
// keys.
func stepSecrets(written any) []stepSecretView {
	var secrets []stepSecretView
	switch w := written.(type) {
	case string:
		secrets = append(secrets, stepSecretView{w, w})
	case []any:
		for _, item := range w {
			secrets = append(secrets, stepSecret(item)...)
		}
	case map[string]any:
		for _, variable := range slices.Sorted(maps.Keys(w)) {
			if key, ok := w[variable].(string); ok {
				secrets = append(secrets, stepSecretView{key, variable})
			}
		}
	}
	return secrets
}

// lastOfEach returns the last secret of each variable, in order.
func lastOfEach(secrets []stepSecretView) []stepSecretView {
	last := make(map[string]int, len(secrets))
	for i, s := range secrets {
		last[s.Variable] = i
	}
	var kept []stepSecretView
	for i, s := range secrets {
		if last[s.Variable] == i {
			kept = append(kept, s)
		}
	}
	return kept
}

func stepSecret(item any) []stepSecretView {
	fields, ok := item.(map[string]any)
	if !ok {
		return stepSecrets(item)
	}
	key, ok := fields["key"].(string)
	if !ok {
		return stepSecrets(fields)
	}
	variable, ok := fields["environment_variable"].(string)
	if !ok {
		variable = key
	}
	return []stepSecretView{{key, variable}}
}

func (s *Service) putAccept(r *route.Request, a caller) (takenJobView, error) {
	id, err := r.PathID("job", noJob)
	if err != nil {
		return takenJobView{}, err
	}
	return s.takeJob(r, a, id, s.accept)
}

func (s *Service) putAcquire(r *route.Request, a caller) (takenJobView, error) {
	id, err := r.PathID("job", noJob)
	if err != nil {
		return takenJobView{}, core.Errorf(core.Unprocessable, noJob)
	}
	return s.takeJob(r, a, id, s.acquire)
}

// takeJob connects the agent and gives it a job.
func (s *Service) takeJob(r *route.Request, a caller, jobID string, take func(context.Context, caller, string) (acceptedJob, error)) (takenJobView, error) {
	if err := s.ensureConnected(r.Context(), a); err != nil {
		return takenJobView{}, err
	}
	t, err := take(r.Context(), a, jobID)
	if err != nil {
		return takenJobView{}, err
	}
	return t.view(), nil
}
