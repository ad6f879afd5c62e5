package stacks

import (
	"encoding/json"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// jobIDs returns the job ids of a request, each once, in the order of the request.
func jobIDs(raw json.RawMessage) ([]string, error) {
	errNotUUIDs := core.Errorf(core.BadRequest, "job_uuids must be an array of job UUIDs")
	if len(raw) == 0 {
		return nil, core.Errorf(core.BadRequest, "job_uuids is required")
	}
	var texts []*string
	if raw[0] != '[' || json.Unmarshal(raw, &texts) != nil {
		return nil, errNotUUIDs
	}
	if len(texts) > maxJobs {
		return nil, core.Errorf(core.BadRequest, "job_uuids must have at most %d items, not %d", maxJobs, len(texts))
	}
	ids := make([]string, 0, len(texts))
	seen := make(map[string]bool, len(texts))
	for _, text := range texts {
		if text == nil {
			return nil, errNotUUIDs
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

// seconds returns a field that is a number of seconds within bounds.
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
	Expiry route.Opt[int]  `json:"reservation_expiry_seconds" doc:"At most 3600. Defaults to 900."`
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
	reserved, err := s.reserve(r.Context(), stack, ids, expiry)
	if err != nil {
		return v, err
	}
	isReserved := make(map[string]bool, len(reserved))
	for _, id := range reserved {
		isReserved[id] = true
	}
	for _, id := range ids {
		if isReserved[id] {
			v.Reserved = append(v.Reserved, id)
		} else {
			v.NotReserved = append(v.NotReserved, id)
		}
	}
	return v, nil
}

type issueTokens struct {
	Jobs     json.RawMessage `json:"job_uuids" doc:"Array of at most 1000 job UUIDs."`
	Lifetime route.Opt[int]  `json:"token_lifetime_seconds" doc:"From 1 to 3600. Defaults to 900."`
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
		v.Tokens = append(v.Tokens, acquisitionTokenView{t.jobID, t.text, core.At(t.expiresAt)})
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
