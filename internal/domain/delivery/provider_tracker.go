package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/mail"
	"stackyard/internal/domain/notifications/report"
	"stackyard/internal/domain/notifications/tracker"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// trackerIssues opens issues for failed builds and comments on them, as the build states of the receiver say.
var trackerIssues = &Provider{Names: switchNames, Wants: switchWants, Send: writeNote, Tests: true}

func writeNote(ctx context.Context, _ *http.Client, m *Message) Answer {
	var settings notifications.TrackerSettings
	if err := m.Settings.Decode(&settings); err != nil {
		return Answer{}.refused(err)
	}
	if m.Event.Name == ping {
		return m.testTracker(ctx, settings.Team)
	}
	note, err := m.note(ctx, settings.Team)
	if err != nil {
		return Answer{Err: err}
	}
	var found tracker.Found
	answer := m.callTracker(ctx, note.Find(), &found)
	if !answer.delivered() {
		return answer
	}
	write, why, err := found.Write(note)
	if err != nil {
		return answer.refused(err)
	}
	if write == nil {
		answer.Response = remark(answer.Status, why)
		return answer
	}
	var written tracker.Written
	answer = m.callTracker(ctx, *write, &written)
	if err := written.Err(); answer.delivered() && err != nil {
		return answer.refused(err)
	}
	return answer
}

// testTracker asks the tracker for what opening an issue needs, and writes nothing.
func (m *Message) testTracker(ctx context.Context, team string) Answer {
	var found tracker.Found
	answer := m.callTracker(ctx, (&tracker.Note{ID: m.ID, URL: m.service.Public.To()}).Find(), &found)
	if !answer.delivered() {
		return answer
	}
	if err := found.CheckTeam(team); err != nil {
		return answer.refused(err)
	}
	answer.Response = remark(answer.Status, "The connection works. A test writes no issue.")
	return answer
}

// callTracker sends a request to the tracker and reads the answer into data.
func (m *Message) callTracker(ctx context.Context, r tracker.Request, data any) Answer {
	body, err := json.Marshal(r)
	if err != nil {
		return Answer{}.refused(err)
	}
	answer := m.call(ctx, "", body)
	if answer.Err != nil || answer.Broken != "" || answer.Status >= 500 || answer.Status == http.StatusTooManyRequests {
		return answer
	}
	failed, ok := errors.AsType[*tracker.Error](tracker.Read(answer.body, data)) // also of responses with the status 400
	switch {
	case !ok:
		return answer
	case failed.Unauthorized():
		answer.Broken = revoked(m.Receiver, failed)
	case failed.Limited():
		answer.Status, answer.Err = http.StatusTooManyRequests, failed
		return answer
	}
	return answer.refused(failed)
}

// note returns what to write about the build.
func (m *Message) note(ctx context.Context, team string) (*tracker.Note, error) {
	b := m.report()
	failed := b.State == flow.BuildFailed || b.State == flow.BuildFailing
	if failed {
		err := m.service.DB.Read(ctx, func(q *db.Q) error {
			return b.LoadJobs(q, m.service.Builds, builds.JobFilter{States: failedStates}, mail.MaxJobs)
		})
		if err != nil {
			return nil, err
		}
	}
	// Without a list of branches only the default branch gets issues: most others are unfinished work.
	concerns := m.Receiver.Branches != "" || b.Branch == m.Pipeline.DefaultBranch
	branch := core.Cut(b.Branch, maxChatText)
	return &tracker.Note{
		ID:        m.ID,
		Title:     core.Cut(fmt.Sprintf("%s failed on %s", m.Pipeline.Name, branch), 250),
		Body:      m.noteBody(b),
		Branch:    b.Branch,
		Opens:     b.State == flow.BuildFailed && concerns,
		Team:      team,
		URL:       m.service.Public.To(m.Organization.Slug, m.Pipeline.Slug) + "?" + url.Values{"branch": {b.Branch}}.Encode(),
		LinkTitle: core.Cut(m.Pipeline.Name+" on "+branch, 250),
	}, nil
}

// noteBody returns what happened in Markdown.
func (m *Message) noteBody(b *report.Build) string {
	what := "Build"
	if m.Job != nil {
		what = "Step " + tracker.Escape(core.Cut(report.Name(m.Job), maxChatText)) + " of build"
	}
	lines := []string{fmt.Sprintf("%s [%s](%s) **%s**.", what, tracker.Escape(fmt.Sprintf("%s #%d", m.Pipeline.Name, b.Number)), b.URL, m.chatState().word)}
	if title, _, _ := strings.Cut(b.Message, "\n"); strings.TrimSpace(title) != "" {
		lines = append(lines, "> "+tracker.Escape(core.Cut(title, maxChatText)))
	}
	lines = append(lines, tracker.Escape(strings.Join(m.chatDetails(), " · ")))
	if len(b.Jobs) > 0 {
		list := "Failed jobs:\n"
		for _, j := range b.Jobs {
			list += fmt.Sprintf("\n- [%s](%s)", tracker.Escape(core.Cut(report.Name(j), maxChatText)), b.JobURL(j))
		}
		if b.More {
			list += "\n- and more"
		}
		lines = append(lines, list)
	}
	return strings.Join(lines, "\n\n")
}
