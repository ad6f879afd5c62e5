package stacks

import (
	"encoding/json"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

type createNotifications struct {
	Notifications json.RawMessage `json:"notifications" doc:"Array of at most 1000 objects: job_uuid, detail, and optionally timestamp."`
}

type notificationErrorsView struct {
	Errors []notificationErrorView `json:"errors"`
}

type notificationErrorView struct {
	Error   string `json:"error"`
	Indexes []int  `json:"indexes" doc:"Indexes of the notifications in the request."`
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
	now := s.clock()
	var invalid problems
	list := make([]notification, 0, len(sent))
	for i, raw := range sent {
		if n, problem := readNotification(raw, now); problem != "" {
			invalid.add(problem, i)
		} else {
			n.index = i
			list = append(list, n)
		}
	}
	if err := s.notify(r.Context(), stack, list, now, &invalid); err != nil {
		return v, err
	}
	for _, message := range invalid.messages {
		v.Errors = append(v.Errors, notificationErrorView{message, invalid.indexes[message]})
	}
	return v, nil
}

// readNotification decodes one notification, or returns its problem. The timestamp defaults to now.
func readNotification(raw json.RawMessage, now time.Time) (n notification, problem string) {
	var sent map[string]json.RawMessage // a struct would match keys of any case
	if json.Unmarshal(raw, &sent) != nil || sent == nil {
		return n, "notification must be an object"
	}
	n.at = now
	jobID, ok := text(sent["job_uuid"])
	switch {
	case !ok:
		return n, "job_uuid must be a string"
	case jobID == "":
		return n, "job_uuid is required"
	}
	if n.jobID, ok = core.ParseID(jobID); !ok {
		return n, "job_uuid is not a UUID"
	}
	if n.detail, ok = text(sent["detail"]); !ok {
		return n, "detail must be a string"
	}
	timestamp := sent["timestamp"]
	if len(timestamp) == 0 || string(timestamp) == "null" {
		return n, ""
	}
	at, _ := text(timestamp)
	if n.at, ok = core.ParseTime(at); !ok {
		return n, "timestamp must be a time in ISO 8601 with a time zone, such as 2026-01-02T03:04:05Z"
	}
	return n, ""
}

// text decodes a string; an absent value and null are "".
func text(raw json.RawMessage) (s string, ok bool) {
	return s, len(raw) == 0 || json.Unmarshal(raw, &s) == nil
}
