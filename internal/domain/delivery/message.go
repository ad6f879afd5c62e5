package delivery

import (
	"context"
	"errors"
	"time"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/buildevents"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/metadata"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// A Message is an event for a receiver, with what it is about as it was when the event was written. Fields that do
// not apply to the event are nil.
type Message struct {
	// ID is the same in every attempt.
	ID           string
	Event        events.Event // of a ping, only the name is set
	Organization *identity.Organization
	Receiver     *notifications.Receiver
	Settings     notifications.Settings
	Target       *Target // nil: what the settings say
	// SentAt is the time of this attempt.
	SentAt time.Time

	Pipeline *pipelines.Pipeline
	Build    *builds.Build
	MetaData map[string]string
	Triggers []*builds.Job // trigger jobs of a build that has finished
	Job      *builds.Job
	Retried  *builds.Job // the job that Job retries
	Agent    *agents.Agent
	Token    *clusters.AgentToken

	service *Service
}

// maxTriggers bounds the trigger jobs that a message has.
const maxTriggers = 100

// errGone says that what an event is about has been deleted.
var errGone = errors.New("what the event is about has been deleted")

// message loads the message of a delivery. It returns errGone if there is nothing to send any more.
func (s *Service) message(ctx context.Context, d *Delivery, org *identity.Organization, r openReceiver) (*Message, error) {
	m := &Message{ID: d.ID, Event: events.Event{Name: d.Event}, Organization: org, Receiver: r.Receiver, Settings: r.settings, Target: d.Target, SentAt: s.Clock(), service: s}
	if d.EventSeq == 0 {
		return m, nil
	}
	err := s.DB.Read(ctx, func(q *db.Q) (err error) {
		if m.Event, err = events.Get(q, d.EventSeq); err != nil {
			return err
		}
		return m.load(q)
	})
	if core.KindOf(err) == core.NotFound {
		err = errGone
	}
	return m, err
}

// load reads what the event is about, and returns a NotFound error if it does not exist any more.
func (m *Message) load(q *db.Q) error {
	e, orgID := m.Event, m.Organization.ID
	if e.PipelineID != "" {
		found, err := pipelines.ByIDs(q, pipelines.System(orgID), []string{e.PipelineID})
		if err != nil {
			return err
		}
		if m.Pipeline = found[e.PipelineID]; m.Pipeline == nil {
			return core.Errorf(core.NotFound, "No pipeline found")
		}
	}
	if e.BuildID != "" {
		var err error
		if m.Build, err = builds.ByID(q, orgID, e.BuildID); err != nil {
			return err
		}
		metaData, err := metadata.OfBuilds(q, []string{e.BuildID}, route.Budget(1, ""))
		if err != nil {
			return err
		}
		m.MetaData = metaData[e.BuildID]
		if e.Name == events.BuildFinished {
			if m.Triggers, err = builds.TriggerJobs(q, e.BuildID, maxTriggers); err != nil {
				return err
			}
		}
	}
	if e.JobID != "" {
		var err error
		if m.Job, err = builds.JobByID(q, orgID, e.JobID); err != nil {
			return err
		}
		if m.Job.RetryOf != "" {
			if m.Retried, err = builds.JobByID(q, orgID, m.Job.RetryOf); err != nil {
				return err
			}
		}
	}
	if m.Build != nil {
		buildevents.AsOf(e.Facts, m.Build, m.Job)
	}
	if m.Job != nil {
		if err := m.service.Builds.FillAgentNames(q, orgID, m.Job); err != nil {
			return err
		}
	}
	return m.loadAgent(q)
}

func (m *Message) loadAgent(q *db.Q) error {
	e := m.Event
	if e.AgentID != "" {
		var err error
		if m.Agent, err = agents.ByID(q, m.Organization.ID, e.AgentID); err != nil {
			return err
		}
		agents.AsOf(e.Facts, m.Agent)
	}
	if e.Facts.TokenID != "" {
		token, err := clusters.TokenByID(q, e.ClusterID, e.Facts.TokenID)
		if err != nil {
			return err
		}
		m.Token = &token
	}
	return nil
}

// Payload returns the message as webhooks show it.
func (m *Message) Payload() map[string]any {
	s, org, e := m.service, m.Organization, m.Event
	payload := map[string]any{"event": e.Name, "sender": m.sender()}
	if e.Name == ping {
		payload["service"] = m.pinged()
		payload["organization"] = s.Organizations.EventView(org)
	}
	if m.Pipeline != nil {
		payload["pipeline"] = s.Pipelines.EventView(org, m.Pipeline)
	}
	if m.Build != nil {
		payload["build"] = s.BuildAPI.EventBuild(org, m.Pipeline, m.Build, m.MetaData)
	}
	if m.Job != nil {
		payload["job"] = s.BuildAPI.EventJob(org, m.Pipeline, m.Build, m.Job, m.Retried)
	}
	if len(m.Triggers) > 0 {
		payload["steps"] = s.BuildAPI.EventSteps(org, m.Triggers)
	}
	if e.Name == events.JobPromisedExitStatus {
		payload["promised_exit_status_reason"] = core.OrNull(e.Facts.PromiseReason)
	}
	if f := e.Facts.Schedule; f != nil {
		payload["schedule"] = eventScheduleView{f.ID, f.Label, f.Cronline, f.Reason, core.At(f.FailedAt)}
	}
	if f := e.Facts.Session; f != nil {
		payload["session"] = eventSessionView{f.ID, f.Kind, f.UserID, f.Address, core.At(f.StartedAt), core.At(f.EndedAt), core.OrNull(f.Reason), counted(f.Sent), counted(f.Received)}
	}
	if m.Agent != nil {
		payload["agent"] = s.Agents.EventView(org, m.Agent)
	}
	if m.Token != nil {
		payload["cluster_token"] = s.Clusters.EventToken(org, *m.Token)
		payload["blocked_ip"] = e.Facts.BlockedIP
	}
	return payload
}

// eventScheduleView is a schedule that was disabled.
type eventScheduleView struct {
	ID            string    `json:"id"`
	Label         string    `json:"label"`
	Cronline      string    `json:"cronline"`
	FailedMessage string    `json:"failed_message"`
	FailedAt      core.Time `json:"failed_at"`
}

// eventSessionView is a remote session into a job.
type eventSessionView struct {
	ID            string    `json:"id"`
	Kind          string    `json:"kind"`
	UserID        string    `json:"user_id"`
	Address       string    `json:"address"`
	StartedAt     core.Time `json:"started_at"`
	EndedAt       core.Time `json:"ended_at"`
	Reason        *string   `json:"reason"`
	BytesSent     *int64    `json:"bytes_sent"`
	BytesReceived *int64    `json:"bytes_received"`
}

// counted returns a number of bytes, nil if it is unknown.
func counted(bytes int64) *int64 {
	if bytes < 0 {
		return nil
	}
	return &bytes
}

type senderView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// sender returns who created the receiver; nil when that is not known.
func (m *Message) sender() *senderView {
	by := m.Receiver.CreatedBy
	if by == nil {
		return nil
	}
	return &senderView{ID: by.ID, Name: by.Name}
}

type pingedServiceView struct {
	ID       string         `json:"id"`
	Provider string         `json:"provider"`
	Settings pingedSettings `json:"settings"`
}

type pingedSettings struct {
	URL string `json:"url"`
}

// pinged returns the receiver as a ping shows it.
func (m *Message) pinged() pingedServiceView {
	v := pingedServiceView{ID: m.Receiver.ID, Provider: m.Receiver.Provider.ID}
	m.Settings.Decode(&v.Settings) // of the webhook, whose URL is not secret
	return v
}
