package delivery

import (
	"strconv"

	"stackyard/internal/domain/events"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// eventLogView is a part of an event log.
type eventLogView struct {
	Items      []loggedEventView `json:"items"`
	NextCursor string            `json:"next_cursor" doc:"Send it as after to read on."`
}

type loggedEventView struct {
	ID        string          `json:"id"`
	Event     events.Name     `json:"event"`
	CreatedAt core.Time       `json:"created_at"`
	Payload   *map[string]any `json:"payload" doc:"As webhooks show the event; null when what it is about was deleted."`
}

const (
	// maxScanned bounds the events that one request looks at.
	maxScanned = 1000
	// maxLogSize bounds the pipelines that one response shows, in bytes.
	maxLogSize = 4 << 20
)

func (s *Service) getLog(r *route.Request, receiver *notifications.Receiver) (view eventLogView, err error) {
	open, ok, err := s.open(receiver, r.Org.Features)
	if err != nil {
		return view, err
	}
	if !ok || open.provider != eventLog || !receiver.Enabled() {
		return view, core.Errorf(core.NotFound, "The notification service has no event log; only enabled services of the provider event_log_api have one")
	}
	list := "event log of " + receiver.ID
	part, err := r.CursorPage(list, 1)
	if err != nil {
		return view, err
	}
	if part.Before != nil {
		return view, core.Errorf(core.BadRequest, "before cannot be used here; an event log is read forwards, with after")
	}
	var after int64
	if part.After != nil {
		if after, err = strconv.ParseInt(part.After[0], 10, 64); err != nil {
			return view, core.Errorf(core.BadRequest, "The cursor is not valid; use one from a previous response, unchanged")
		}
	}
	view.Items = []loggedEventView{}
	err = s.DB.Read(r.Context(), func(q *db.Q) error {
		after, err = s.scanLog(q, r.Org, open, after, part.Size, func(e events.Event, m *Message) {
			shown := loggedEventView{ID: e.ID, Event: e.Name, CreatedAt: core.At(e.CreatedAt)}
			if m != nil {
				payload := m.Payload()
				shown.Payload = &payload
			}
			view.Items = append(view.Items, shown)
		})
		return err
	})
	view.NextCursor = part.Cursor(core.Cursor{strconv.FormatInt(after, 10)})
	return view, err
}

// scanLog calls show with up to limit events after a number that a receiver wants, and with what they are about; nil if
// that was deleted. It returns the number after which to read on.
func (s *Service) scanLog(q *db.Q, org *identity.Organization, r openReceiver, after int64, limit int, show func(events.Event, *Message)) (int64, error) {
	list, end, err := events.After(q, consumer, org.ID, r.provider.Names(r.Receiver, r.settings), after, maxScanned)
	if err != nil {
		return after, err
	}
	teams, err := teamsOf(q, org.ID, []openReceiver{r}, list)
	if err != nil {
		return after, err
	}
	shown, size := 0, 0
	for _, e := range list {
		if shown == limit || size > maxLogSize {
			return after, nil
		}
		after = e.Seq
		if !r.covers(e, targetOf(e, teams)) {
			continue
		}
		shown++
		m := &Message{ID: e.ID, Event: e, Organization: org, Receiver: r.Receiver, Settings: r.settings, SentAt: e.CreatedAt, service: s}
		err := m.load(q)
		if core.KindOf(err) == core.NotFound {
			m = nil
		} else if err != nil {
			return after, err
		}
		if m != nil && m.Pipeline != nil {
			size += m.Pipeline.Size()
		}
		show(e, m)
	}
	return end, nil
}
