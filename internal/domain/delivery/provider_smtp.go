package delivery

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/mail"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// smtp sends e-mails to the people who created builds, as the build states of the receiver say.
var smtp = &Provider{Names: switchNames, Wants: switchWants, Send: sendMail, Tests: true}

// failedStates are the states of jobs that a message lists.
var failedStates = []string{"failed", "timed_out", "expired"}

func sendMail(ctx context.Context, _ *http.Client, m *Message) Answer {
	var settings notifications.SMTPSettings
	if err := m.Settings.Decode(&settings); err != nil {
		return Answer{Err: err, Permanent: true}
	}
	to, err := m.recipient(ctx)
	if err != nil {
		return Answer{Err: err}
	}
	if to == "" {
		return Answer{Status: http.StatusNoContent, Response: remark(http.StatusNoContent, "the build was not created by a member of the organization")}
	}
	message, err := m.mail(ctx)
	if err != nil {
		return Answer{Err: err}
	}
	server := mail.Server{
		Address: settings.Server, Username: settings.Username, Password: settings.Password,
		From: settings.From, TLS: mail.TLS(settings.TLS), SkipVerify: !settings.TLSVerify,
	}
	message.ID, message.To, message.Date = m.ID, to, m.SentAt
	message.Host, _, _ = strings.Cut(m.service.Public.Host(), ":")
	const accepted = 250 // by SMTP, which has the same classes of statuses as HTTP
	answer := Answer{Status: accepted, Request: &RequestRecord{
		Method: "MAIL", URL: "smtp://" + settings.Server, Body: message.Text,
		Headers: map[string]string{"From": settings.From, "To": to, "Subject": message.Subject},
	}}
	if failed, ok := errors.AsType[*mail.Error](server.Send(ctx, m.service.dialer, message)); ok {
		answer.Status, answer.Err, answer.Permanent = 0, failed, !failed.Retry
		if failed.Code != 0 { // the server works, but does not take this message now or ever
			answer.Status = http.StatusServiceUnavailable
		}
	}
	return answer
}

// mail returns the subject and the texts of the message.
func (m *Message) mail(ctx context.Context) (*mail.Message, error) {
	if m.Event.Name == ping {
		subject, text, html := mail.Test(m.Organization.Name)
		return &mail.Message{Thread: m.ID, Subject: subject, Text: text, HTML: html}, nil
	}
	b := m.report()
	err := m.service.DB.Read(ctx, func(q *db.Q) error {
		return b.LoadJobs(q, m.service.Builds, builds.JobFilter{States: failedStates}, mail.MaxJobs)
	})
	if err != nil {
		return nil, err
	}
	facts := m.Event.Facts.Build
	subject, text, html, err := mail.About(b, facts != nil && facts.Fixed)
	return &mail.Message{Thread: b.ID, Subject: subject, Text: text, HTML: html}, err
}

// recipient returns the address of the build's creator; empty: none, or one that has left the organization.
func (m *Message) recipient(ctx context.Context) (string, error) {
	if m.Target != nil {
		return m.Target.To, nil
	}
	by := m.Build.Creator
	if by == nil {
		return "", nil
	}
	_, err := m.service.Organizations.Member(ctx, m.Organization.ID, by.ID)
	if core.KindOf(err) == core.NotFound {
		return "", nil
	}
	return by.Email, err
}
